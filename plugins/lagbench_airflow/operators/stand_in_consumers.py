"""Start the stand-in consumers at the policy's floor."""

from __future__ import annotations

from typing import Any

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.manifest_files import base_manifest, base_objects
from lagbench.adapters.kube.ready_pods import start_limit_seconds, wait_ready
from lagbench.core.cluster import (
    ConsumersWay,
    RunTarget,
    broker_proxy_for_run,
    companion_for_run,
    consumer_for_run,
)
from lagbench.core.scenario import (
    BROKER_PROXY,
    BrokerUnreachable,
    Scenario,
    downstream_pace,
    start_delay,
)
from lagbench.core.scenario.stream import poisoned_key
from lagbench.embedded import bench
from lagbench.embedded.broker_settings import ProxiedListener
from lagbench.errors import NotReady
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.imposed_limits import require_unthrottled


def start_stand_in_consumers(
    kube: Kube, cell: CellRun, target: RunTarget, *, is_embedded: bool
) -> dict[str, Any]:
    """Apply the workload and wait for its pods; return the replicas and the arguments.

    If an action disturbs their connections to the broker, the broker proxy comes first.
    """
    settings, replicas = cell.scenario.consumer, cell.policy.limits.floor_replicas
    start = start_delay(settings, cell.scenario.seed, is_embedded=is_embedded)
    # Its action disturbs the first group's connections: the second group's scenario lacks it.
    listener = listener_behind_proxy(cell.scenario)
    way = None
    if listener is not None:
        way = ConsumersWay(listener.bootstrap_servers, target.bootstrap_servers)
    manifest = consumer_for_run(
        base_manifest("consumer", "Deployment"),
        target,
        settings,
        replicas=replicas,
        seed=cell.scenario.seed,
        poison=poisoned_key(cell.scenario),
        start=start,
        pace=downstream_pace(cell.scenario.actions),
        has_payload=cell.scenario.payload is not None,
        way=way,
    )
    if listener is not None:
        proxy = broker_proxy_for_run(
            base_manifest(BROKER_PROXY, "Deployment"),
            target,
            listen_port=listener.advertised_port,
            upstream_port=listener.port,
        )
        kube.apply(proxy)
        wait_ready(kube, BROKER_PROXY, 1)
    if not is_embedded:  # localkube drains no nodes
        for companion in base_objects("consumer"):
            kube.apply(companion_for_run(companion, target))
    kube.apply(manifest)
    within = start_limit_seconds(is_embedded=is_embedded)
    within += 0.0 if start is None else start.longest_seconds
    name, kind = manifest["metadata"]["name"], manifest["kind"]
    wait_ready(kube, name, replicas, kind=kind, timeout_seconds=within)
    if not is_embedded:  # localkube has no LimitRanges
        require_unthrottled(kube, manifest)
    return {
        "replicas": replicas,
        "args": manifest["spec"]["template"]["spec"]["containers"][0]["args"],
    }


def listener_behind_proxy(scenario: Scenario) -> ProxiedListener | None:
    """Return the embedded broker's listener behind the proxy, if an action disturbs it.

    :raises NotReady: the bench has none.
    """
    if not any(isinstance(action, BrokerUnreachable) for action in scenario.actions):
        return None
    state = bench.running(bench.state_dir())
    if state is None or state.proxied is None:
        raise NotReady(
            "the running bench has no listener behind the broker proxy: an earlier version started "
            "it. Stop it with `lagbench down` and start the run again"
        )
    return state.proxied
