"""Consumers behind the broker proxy: cut off and slowed down, with everybody else undisturbed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient
from tests.eventually import eventually
from tests.integration.consumer_group import ConsumerGroupRun, consumer_group_run
from tests.integration.proxied_broker import ProxiedBroker, proxied_broker

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.core.scenario.actions import BrokerUnreachable
from lagbench.core.scenario.run_names import PORT_ANNOTATION
from lagbench.core.telemetry.records_of_programs import ConsumerProgress, PartitionsRevoked
from lagbench.programs.actions.performers import DisturbedConnections

pytestmark = pytest.mark.slow
PARTITIONS = 6
SESSION_SECONDS = 6


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    """Provide a broker whose second listener is behind a running proxy."""
    with proxied_broker(tmp_path_factory.mktemp("proxied")) as found:
        yield found


@pytest.fixture
def run(proxied: ProxiedBroker, tmp_path: Path) -> Iterator[ConsumerGroupRun]:
    """Provide the topics of a run whose pods reach Kafka through the proxy."""
    servers = proxied.broker.bootstrap_servers
    with consumer_group_run(servers, tmp_path, partitions=PARTITIONS) as made:
        made.proxied_servers = proxied.listener.bootstrap_servers
        yield made
    proxied.obey(mode="pass")


def test_a_client_behind_the_proxy_is_told_of_no_other_way(proxied: ProxiedBroker) -> None:
    """Metadata name the proxy's port to its clients, and the broker's own to all others."""

    def ports(servers: str) -> set[int]:
        metadata = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=60)
        return {broker.port for broker in metadata.brokers.values()}

    assert ports(proxied.listener.bootstrap_servers) == {proxied.listener.advertised_port}
    assert ports(proxied.broker.bootstrap_servers) == {proxied.broker.port}


def test_a_cut_off_pod_loses_its_place_and_comes_back(
    proxied: ProxiedBroker, run: ConsumerGroupRun
) -> None:
    """A blackhole longer than the session: the group is empty, the pod lives, nothing is lost.

    Its telemetry and everybody on the direct way go on.
    """
    flags = [f"--session-timeout-ms={SESSION_SECONDS * 1000}", "--process-ms=2"]
    run.start("pod-a", *flags)
    is_over = threading.Event()
    load = threading.Thread(
        target=run.offer_until, args=(is_over,), kwargs={"rate_per_second": 300}
    )
    load.start()
    run.await_processed(500)
    with KafkaAdmin(proxied.broker.bootstrap_servers) as direct:
        begun = proxied.obey(mode="blackhole")
        cut_at = time.time_ns()
        assert begun.connections >= 2

        def is_gone() -> bool:
            return not direct.describe_group(run.names.group).members

        def has_reported() -> bool:
            reports = [seen for seen in run.telemetry(ConsumerProgress) if seen.at > cut_at]
            return len(reports) >= 5

        eventually(is_gone, "the broker to forget the member")
        eventually(has_reported, "telemetry meanwhile")
        held = proxied.obey()
        assert held.mode == "blackhole"
        assert held.to_broker_bytes == begun.to_broker_bytes
        open_at = time.time_ns()
        assert proxied.obey(mode="pass").mode == "pass"
        is_over.set()
        load.join()
        rows = run.await_processed(run.sent)

    # What had been fetched is finished, however long that takes; nothing that came after it is
    # fetched while nothing passes.
    came_later = run.created_at()[rows.seq] > cut_at
    assert came_later.any()
    assert rows.started_at[came_later].min() >= open_at
    assert any(seen.is_lost for seen in run.telemetry(PartitionsRevoked))
    assert run.pods["pod-a"].poll() is None
    assert run.terminate("pod-a") == 0
    assert np.array_equal(np.unique(rows.seq), np.arange(run.sent, dtype=np.uint64))


def test_reset_connections_are_made_again(proxied: ProxiedBroker, run: ConsumerGroupRun) -> None:
    """While connections are reset nothing is fetched; afterwards the pods go on by themselves."""
    for pod in ("pod-a", "pod-b"):
        run.start(pod, "--session-timeout-ms=30000", "--process-ms=2")
    load = threading.Thread(target=run.offer, args=(4000,), kwargs={"rate_per_second": 300})
    load.start()
    run.await_processed(500)
    before = proxied.obey()
    proxied.obey(mode="reset", seconds=3)
    eventually(lambda: proxied.obey().mode == "pass", "its end")
    load.join()
    run.await_processed(4000)

    # The two clients of each pod, and each of their attempts meanwhile.
    assert proxied.obey().reset_connections - before.reset_connections >= 4
    assert [run.terminate(pod) for pod in list(run.pods)] == [0, 0]


def test_the_player_disturbs_the_connections_and_ends_it(proxied: ProxiedBroker) -> None:
    """It finds the proxy by its pod, and reports how many connections were reset."""
    annotations = {f"{PORT_ANNOTATION}control": str(proxied.control_port)}
    kube = SimpleNamespace(list=lambda *_, **__: [{"metadata": {"annotations": annotations}}])
    stage = SimpleNamespace(
        kube=kube,
        options=SimpleNamespace(run_id="q-1"),
        ready_pods=lambda: ["consumer-0"],
        pods=lambda: ["consumer-0", "consumer-1"],
    )
    action = BrokerUnreachable(
        kind="broker_unreachable", at_seconds=1, for_seconds=0.5, mode="reset"
    )
    performer = DisturbedConnections(0, action, cast("Any", stage))
    before = proxied.obey().connections
    with socket.create_connection(("127.0.0.1", proxied.listener.advertised_port)):
        eventually(lambda: proxied.obey().connections > before, "a connection")
        assert performer.choose() == ["consumer-0"]
        performer.act()
        assert proxied.obey().mode == "reset"
        performer.hold(threading.Event())
        performer.undo()

    assert proxied.obey().mode == "pass"
    assert int(performer.detail.split()[0]) >= 1
    assert performer.came == ["consumer-1"]
