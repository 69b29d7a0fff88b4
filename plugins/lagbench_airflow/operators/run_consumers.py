"""Start the consumers under test at the policy's floor: our stand-in, or a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lagbench import project
from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.adapters.kube.workloads import wait_ready
from lagbench.catalog.own_consumers import read_environment, read_own_deployment
from lagbench.core.cluster.manifests import ConsumersWay, consumer_for_run
from lagbench.core.cluster.own_deployment import own_consumer_for_cluster
from lagbench.core.cluster.own_process import own_consumer_as_process
from lagbench.core.cluster.run_jobs import broker_proxy_for_run
from lagbench.core.scenario.actions import BrokerUnreachable, downstream_pace
from lagbench.core.scenario.event_stream import poisoned_key
from lagbench.core.scenario.run_names import BROKER_PROXY
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_start import start_delay
from lagbench.embedded import bench
from lagbench.embedded.broker import ProxiedListener
from lagbench.errors import NotReady
from lagbench.results.cell_run import CellRun
from lagbench_airflow.operators.start_companions import CellOperator, Place

if TYPE_CHECKING:
    from airflow.sdk import Context

OWN_START_SECONDS = 180.0
"""Code of others may take its time: an image is pulled, a JVM starts."""


class RunConsumersOperator(CellOperator):
    """Run the consumers' workload at the policy's floor.

    After success: every pod is Ready. On failure the workload stays, so that its pods can be
    inspected; the run's teardown deletes it. A retry applies the same manifest again and is safe.
    """

    def acts_on(self, cell: CellRun) -> Sequence[CellRun]:
        """Return the groups whose consumers are not on Spark."""
        return [one for one in cell.groups if one.scenario.consumer.kind != "spark"]

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Apply the workload and wait for its pods."""
        start = start_own if cell.scenario.consumer.kind == "own" else start_stand_in
        with self.opened(cell) as place:
            return start(cell, place)


def start_stand_in(cell: CellRun, place: Place) -> dict[str, Any]:
    """Start lagbench's own consumers; return the replicas and the arguments.

    If an action disturbs their connections to the broker, the broker proxy comes first.
    """
    scenario, replicas, way = cell.scenario, cell.policy.limits.floor_replicas, None
    start = start_delay(scenario.consumer, scenario.seed, is_embedded=place.is_embedded)
    # Its action disturbs the first group's connections: the second group's scenario lacks it.
    if (listener := listener_behind_proxy(scenario)) is not None:
        way = ConsumersWay(listener.bootstrap_servers, place.target.bootstrap_servers)
        ports = {"listen_port": listener.advertised_port, "upstream_port": listener.port}
        base = base_manifest(BROKER_PROXY, "Deployment")
        place.start(broker_proxy_for_run(base, place.target, **ports))
    place.apply_companions("consumer")
    manifest = consumer_for_run(
        base_manifest("consumer", "Deployment"),
        place.target,
        scenario.consumer,
        replicas=replicas,
        seed=scenario.seed,
        poison=poisoned_key(scenario),
        start=start,
        pace=downstream_pace(scenario.actions),
        has_payload=scenario.payload is not None,
        way=way,
    )
    delay = 0.0 if start is None else start.longest_seconds
    place.start(manifest, within_seconds=place.start_seconds + delay)
    return {
        "replicas": replicas,
        "args": manifest["spec"]["template"]["spec"]["containers"][0]["args"],
    }


def listener_behind_proxy(scenario: Scenario) -> ProxiedListener | None:
    """Return the embedded broker's listener behind the proxy, if an action disturbs it."""
    if not any(isinstance(action, BrokerUnreachable) for action in scenario.actions):
        return None
    state = bench.running(project.state_dir())
    if state is None or state.proxied is None:
        raise NotReady(
            "the running bench has no listener behind the broker proxy: an earlier version started "
            "it. Stop it with `lagbench down` and start the run again"
        )
    return state.proxied


def start_own(cell: CellRun, place: Place) -> dict[str, Any]:
    """Start the user's workload; return the replicas and what was left out.

    The run folder gets the workload as it was applied. Values of Secrets are not in it.
    """
    consumer, replicas = cell.scenario.consumer, cell.policy.limits.floor_replicas
    own = read_own_deployment(cell.folder.own_deployment, consumer)
    if place.is_embedded:
        found = own_consumer_as_process(
            own,
            place.target,
            consumer,
            replicas=replicas,
            environment=read_environment(consumer),
            folder=str(Path(str(consumer.manifest)).parent),
            kafka=bench.kafka_settings(project.state_dir()),
        )
        workload, notes = found.workload, list(found.notes)
        for companion in found.beside:
            place.kube.apply(companion)
    else:
        workload = own_consumer_for_cluster(own, place.target, consumer, replicas=replicas)
        notes = list(own.notes)
        place.apply_companions("consumer")
    cell.folder.write_text(
        cell.folder.own_consumer, yaml.safe_dump(workload, sort_keys=False), mode=0o600
    )
    cell.folder.update_manifest(own_consumer_notes=notes)
    place.kube.apply(workload)
    wait_ready(
        place.kube,
        place.target.names.consumers,
        replicas,
        timeout_seconds=max(OWN_START_SECONDS, place.start_seconds),
        written_in=str(consumer.manifest),
    )
    return {"replicas": replicas, "left_out": notes}
