"""Sampling on a fixed grid, on clocks that the tests turn."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from email.utils import formatdate
from typing import Any

import pytest

from lagbench.core.clocks import API_SERVER
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import ClockOffset, ReadGap, ReplicaSample
from lagbench.programs.recorder import grid_sampler as sampling_grid
from lagbench.programs.recorder.cluster_clocks import (
    Ask,
    ClockProbe,
    NodeClock,
    ask_endpoint,
    node_clocks,
)
from lagbench.programs.recorder.grid_sampler import GridSampler, Read
from pod_program.http_endpoint import HttpEndpoint, probe_routes

MS = 1_000_000
INTERVAL_NS = 50 * MS
ORIGIN_AT = 1_700_000_000_000 * MS


class Clocks:
    """A monotonic and a wall clock that only move when something waits or works."""

    def __init__(self) -> None:
        """Start between two ticks of the grid."""
        self.monotonic_at = 77 * MS
        self.wall_at = ORIGIN_AT + 120 * MS

    def monotonic_ns(self) -> int:
        """Return the monotonic clock."""
        return self.monotonic_at

    def time_ns(self) -> int:
        """Return the wall clock."""
        return self.wall_at

    def pass_ns(self, passed_ns: int) -> None:
        """Let time pass on both."""
        self.monotonic_at += passed_ns
        self.wall_at += passed_ns


class Waits:
    """Takes the place of the event that stops the sampler: it stops after some waits."""

    def __init__(self, clocks: Clocks, count: int) -> None:
        """Allow ``count`` readings."""
        self._clocks, self._left = clocks, count

    def wait(self, seconds: float) -> bool:
        """Let the time pass; return whether to stop."""
        self._clocks.pass_ns(round(seconds * 1e9))
        self._left -= 1
        return self._left < 0


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    """Give the sampler these clocks."""
    clocks = Clocks()
    monkeypatch.setattr(sampling_grid, "time", clocks)
    return clocks


def replicas(at: int) -> list[Record]:
    """Return one sample."""
    return [ReplicaSample(at=at, source="recorder", spec=1, current=1, ready=1)]


def sampled(
    clocks: Clocks,
    delays_ms: Iterable[float],
    *,
    interval_ns: int = INTERVAL_NS,
    is_changing: Iterable[bool] = (),
    read: Read = replicas,
) -> list[tuple[str, float]]:
    """Return kind and ms since the origin of what is sent by readings that take so long."""
    found: list[Record] = []
    delays, changing = [*delays_ms], iter(is_changing)

    def read_slowly(at: int) -> Iterable[Record]:
        clocks.pass_ns(round(delays.pop(0) * MS))
        return read(at)

    running = GridSampler(
        "replicas",
        read_slowly,
        send=found.append,
        source="recorder",
        origin_at=ORIGIN_AT,
        interval_ns=interval_ns,
        is_changing=lambda: next(changing, False),
    )
    running._stopping = Waits(clocks, len(delays))  # type: ignore[assignment]
    running.run()
    assert running.has_read
    reasons = {record.reason for record in found if isinstance(record, ReadGap)}
    assert all(re.search(r"\d+\.\d s|no answer", reason) for reason in reasons)
    return [(type(record).__name__, (record.at - ORIGIN_AT) / MS) for record in found]


SAMPLE, GAP = "ReplicaSample", "ReadGap"


@pytest.mark.parametrize(
    ("delays_ms", "interval_ms", "is_changing", "expected"),
    [
        # At the origin plus whole intervals, however long the others took.
        ((0, 31, 7, 49, 0), 50, (), [(SAMPLE, at) for at in (150, 200, 250, 300, 350)]),
        # A reading of 2.6 intervals leaves two gaps at their ticks, and the grid stays.
        (
            (130, 0, 0),
            50,
            (),
            [(SAMPLE, 150), (GAP, 200), (GAP, 250), (SAMPLE, 300), (SAMPLE, 350)],
        ),
        # Between two ticks readings lead up to the next tick: five a second, until it is at rest.
        (
            (0, 0, 130, 0, 0, 0, 0),
            1000,
            (True, True, True, True, True),
            [(SAMPLE, at) for at in (1000, 1200, 1400, 1600, 1800, 2000, 3000)],
        ),
        # A slow reading there leaves gaps at the ticks, too.
        (
            (0, 2300, 0),
            1000,
            (True, True),
            [(SAMPLE, 1000), (SAMPLE, 1200), (GAP, 2000), (GAP, 3000), (SAMPLE, 3600)],
        ),
    ],
)
def test_samples_lie_on_the_grid(
    clocks: Clocks,
    delays_ms: tuple[float, ...],
    interval_ms: int,
    is_changing: tuple[bool, ...],
    expected: list[tuple[str, float]],
) -> None:
    """What is missed is reported, and the grid does not move."""
    interval_ns = interval_ms * MS

    assert sampled(clocks, delays_ms, interval_ns=interval_ns, is_changing=is_changing) == expected


def test_a_failed_read_is_a_gap_and_the_next_tick_goes_on(clocks: Clocks) -> None:
    """Nothing is made up: the gap carries the reason."""
    answers = iter([[], replicas(1)])

    def read(at: int) -> Iterable[Record]:
        if not next(answers):
            raise NotImplementedError("no answer")
        return replicas(at)

    assert sampled(clocks, (0, 0), read=read) == [(GAP, 150), (SAMPLE, 200)]


@pytest.mark.parametrize("step_seconds", [-4, 4])
def test_readings_go_on_when_the_clock_is_set(clocks: Clocks, step_seconds: int) -> None:
    """A step of the wall clock, back or forward, neither stops the readings nor makes gaps."""
    began_at = clocks.monotonic_at

    def read(at: int) -> Iterable[Record]:
        if clocks.monotonic_at - began_at < INTERVAL_NS:
            clocks.wall_at += step_seconds * 1_000 * MS
        return replicas(at)

    found = sampled(clocks, [0] * 5, read=read)

    assert [kind for kind, _ in found] == [SAMPLE] * 5
    assert clocks.monotonic_at - began_at < 6 * INTERVAL_NS


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

    for ask in (silent, lambda: (cluster.now, "no date", cluster.now)):
        cluster.nodes = [NodeClock("node-1", ask, ("a",))]
        probe.look()
        probe.probe("node-1")

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
    """A producer has no endpoint, yet it has the clock of the consumer beside it.

    Pods that start, ended or are being deleted do not answer.
    """
    ending = pod("c", "n3")
    ending["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    silent = [pod("a", "n4", is_ready=False), pod("b", "n5", phase="Failed"), ending]
    pods = [pod("producer-1", "n1", port="none"), pod("consumer-1", "n1"), pod("consumer-2", "n2")]

    assert [(clock.node, clock.pods) for clock in node_clocks([*pods, *silent])] == [
        ("n1", ("consumer-1", "producer-1")),
        ("n2", ("consumer-2",)),
    ]
