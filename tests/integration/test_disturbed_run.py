"""Consumer pods on localkube behind the broker proxy, disturbed by the player of actions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.eventually import eventually
from tests.integration.consumer_group import ConsumerGroupRun
from tests.integration.localkube_process import LocalkubeProcess
from tests.integration.test_action_player import ends, player

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.manifests import ConsumersWay, RunTarget, consumer_for_run
from lagbench.core.cluster.run_jobs import broker_proxy_for_run
from lagbench.core.scenario.message_costs import DownstreamPace
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.telemetry.records_of_programs import ActionStarted
from lagbench.embedded.broker import Broker, ProxiedListener
from lagbench.embedded.child_server import free_port

pytestmark = pytest.mark.slow
PARTITIONS = 6


@pytest.fixture
def listener() -> ProxiedListener:
    """Provide the ports of a listener behind the proxy."""
    port = free_port()
    return ProxiedListener(port=port, advertised_port=free_port(besides={port}))


@pytest.fixture
def broker(tmp_path: Path, listener: ProxiedListener) -> Iterator[Broker]:
    """Provide a broker with that listener."""
    own = Broker(tmp_path / "broker", proxied=listener)
    own.start()
    yield own
    own.stop()


def test_pods_that_are_cut_off_come_back_and_lose_nothing(
    run: ConsumerGroupRun, localkube: LocalkubeProcess, listener: ProxiedListener
) -> None:
    """A blackhole in a stream: both stamps, no byte passed meanwhile, every event processed."""
    kube = Kube.from_kubeconfig(localkube.kubeconfig)
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}})
    target = RunTarget(run.names, run.bootstrap_servers)
    ports = {"listen_port": listener.advertised_port, "upstream_port": listener.port}
    proxy = base_manifest("broker-proxy", "Deployment")
    kube.apply(broker_proxy_for_run(proxy, target, **ports))
    _await_ready(kube, "broker-proxy", 1)
    consumers = consumer_for_run(
        base_manifest("consumer", "Deployment"),
        target,
        ConsumerSettings(process_ms=2),
        replicas=2,
        way=ConsumersWay(listener.bootstrap_servers, run.bootstrap_servers),
        pace=DownstreamPace(),
    )
    kube.apply(consumers)
    _await_ready(kube, "consumer", 2)
    with KafkaAdmin(run.bootstrap_servers) as admin:
        run.await_members(admin, 2)
    is_over = threading.Event()
    load = threading.Thread(
        target=run.offer_until, args=(is_over,), kwargs={"rate_per_second": 200}
    )
    load.start()
    cut = {"kind": "broker_unreachable", "at_seconds": 3, "for_seconds": 6}

    with player(run, localkube, cut) as process:
        assert process.wait(timeout=300) == 0
    is_over.set()
    load.join()
    rows = run.await_processed(run.sent)

    (end,), (start,) = ends(run), run.telemetry(ActionStarted)
    assert (end.error, len(start.targets)) == ("", 2)
    assert end.detail.endswith("0 bytes passed")
    cut_ns = 6_000_000_000
    assert end.at - start.at >= cut_ns
    # The cut begins between the first stamp and 6 s before the last. Pods may still work on what
    # they have in hand, however slow they are; they cannot have an event that came after it began.
    came_later = run.created_at()[rows.seq] > end.at - cut_ns
    assert came_later.any()
    assert rows.started_at[came_later].min() >= start.at + cut_ns
    assert np.array_equal(np.unique(rows.seq), np.arange(run.sent, dtype=np.uint64))
    kube.close()


def _await_ready(kube: Kube, deployment: str, replicas: int) -> None:
    def ready() -> bool:
        status = (kube.get("Deployment", deployment) or {}).get("status") or {}
        return int(status.get("readyReplicas") or 0) >= replicas

    eventually(ready, f"{replicas} Ready pods of {deployment}")
