"""Asking the cluster's clocks."""

from __future__ import annotations

import threading
from email.utils import formatdate
from typing import Any

from lagbench.core.clocks import API_SERVER
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import ClockOffset
from lagbench.programs.http_endpoint import HttpEndpoint, probe_routes
from lagbench.programs.recorder.cluster_clocks import (
    Ask,
    ClockProbe,
    NodeClock,
    ask_endpoint,
    node_clocks,
)

SECOND = 1_000_000_000

START_AT = 1_795_255_202 * SECOND


class Cluster:
    """Clocks that answer, beside the prober's own that stands at ``now``."""

    def __init__(self) -> None:
        """Start with nodes unknown."""
        self.now = START_AT
        self.nodes: list[NodeClock] = []
        self.sent: list[Record] = []

    def clock(self, offset_ns: int) -> Ask:
        """Return a clock that is ahead by ``offset_ns`` and answers at once."""

        def ask() -> tuple[int, str, int]:
            return self.now, formatdate((self.now + offset_ns) // SECOND, usegmt=True), self.now

        return ask

    def probe(self, offset_ns: int) -> ClockProbe:
        """Return a probe of an API server that is ahead by ``offset_ns``."""
        return ClockProbe(
            self.clock(offset_ns),
            lambda: self.nodes,
            send=self.sent.append,
            source="recorder",
            now=lambda: self.now,
        )

    def offsets(self, clock: str) -> list[ClockOffset]:
        """Return what was sent of a clock."""
        return [r for r in self.sent if isinstance(r, ClockOffset) and r.clock == clock]


def test_the_api_servers_offset_is_within_every_bound_sent() -> None:
    """Ahead by 1.3 s; the second answer narrows the first."""
    cluster = Cluster()
    probe = cluster.probe(1_300_000_000)

    probe.probe(API_SERVER)
    cluster.now += SECOND // 4
    probe.probe(API_SERVER)

    first, second = cluster.offsets(API_SERVER)
    assert first.low_ns <= second.low_ns <= 1_300_000_000 <= second.high_ns <= first.high_ns
    assert second.high_ns - second.low_ns < SECOND
    assert (second.answers, second.since_at) == (2, START_AT)


def test_a_node_keeps_its_bound_while_its_pods_change() -> None:
    """Pod a ended, pod b came: the clock is the same, and both have it."""
    cluster = Cluster()
    probe, ask = cluster.probe(0), cluster.clock(-(10**8))
    for pod in ("a", "b"):
        cluster.nodes = [NodeClock("node-1", ask, (pod,))]
        probe.look()
        probe.probe("node-1")

    assert [(found.pods, found.answers) for found in cluster.offsets("node-1")] == [
        (["a"], 1),
        (["a", "b"], 2),
    ]


def test_a_clock_that_does_not_answer_is_not_made_up() -> None:
    """Refused, or an answer without a date: nothing is sent."""
    cluster = Cluster()
    probe = cluster.probe(0)

    def silent() -> tuple[int, str, int]:
        raise ConnectionRefusedError

    def dateless() -> tuple[int, str, int]:
        return cluster.now, "no date", cluster.now

    cluster.nodes = [NodeClock("node-1", silent, ("a",)), NodeClock("node-2", dateless, ("b",))]
    probe.look()
    probe.probe("node-1")
    probe.probe("node-2")

    assert cluster.sent == []


def test_clocks_are_asked_on_after_this_one_was_set_back() -> None:
    """An hour back: what was due then is asked now, not in an hour."""
    cluster, asked = Cluster(), threading.Event()
    probe = cluster.probe(0)
    probe.look()
    probe.probe(API_SERVER)
    cluster.now -= 3600 * SECOND
    probe._send = lambda _: asked.set()
    probe.start()
    try:
        assert asked.wait(60)
    finally:
        probe.stop()
        asked.clear()


def test_a_pods_own_endpoint_reports_its_second() -> None:
    """The endpoint of our programs answers with a Date between the two instants."""
    endpoint = HttpEndpoint("127.0.0.1", 0, probe_routes(lambda: True))

    sent_at, date, received_at = ask_endpoint("127.0.0.1", endpoint.port)

    endpoint.close()
    within = {formatdate(at // SECOND, usegmt=True) for at in (sent_at, received_at)}
    assert date in within


def pod(
    name: str, node: str, *, is_ready: bool = True, phase: str = "Running", port: str = "metrics"
) -> dict[str, Any]:
    """Return a pod."""
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "containers": [{"ports": [{"name": port, "containerPort": 8080}]}],
        },
        "status": {
            "phase": phase,
            "podIP": "10.0.0.7",
            "conditions": [{"type": "Ready", "status": str(is_ready)}],
        },
    }


def test_one_ready_pod_speaks_for_all_of_its_node() -> None:
    """A producer has no endpoint, yet it has the clock of the consumer beside it."""
    found = node_clocks(
        [pod("producer-1", "n1", port="none"), pod("consumer-1", "n1"), pod("consumer-2", "n2")]
    )

    assert [(clock.node, clock.pods) for clock in found] == [
        ("n1", ("consumer-1", "producer-1")),
        ("n2", ("consumer-2",)),
    ]


def test_a_node_without_a_ready_endpoint_is_not_asked() -> None:
    """Pods that start, ended or are being deleted do not answer."""
    ending = pod("c", "n3")
    ending["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"

    assert (
        node_clocks([pod("a", "n1", is_ready=False), pod("b", "n2", phase="Failed"), ending]) == []
    )
