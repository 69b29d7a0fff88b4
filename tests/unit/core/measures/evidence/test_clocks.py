"""The clocks of a run and what they do to its stamps."""

from __future__ import annotations

import re
from types import SimpleNamespace

from lagbench.core.clocks import API_SERVER, ONE_CLOCK, clock_set, on_recorders_clock
from lagbench.core.measures.doubts.doubt import Window
from lagbench.core.measures.doubts.load import clock_steps
from lagbench.core.measures.evidence.clocks import clocks_measure
from lagbench.core.telemetry.consumer import GroupJoined
from lagbench.core.telemetry.producer import StreamStarted
from lagbench.core.telemetry.record import ClockStepped
from lagbench.core.telemetry.recorder import ClockOffset, PodSeen
from lagbench.core.telemetry.records import TelemetryRecord

MILLISECOND = 1_000_000


def offset(
    low: int, high: int, *, clock: str = API_SERVER, since: int = 0, pods: tuple[str, ...] = ()
) -> ClockOffset:
    """Return what the recorder says of a clock, in milliseconds."""
    return ClockOffset(
        at=since + 10,
        source="recorder",
        clock=clock,
        pods=list(pods),
        low_ns=low * MILLISECOND,
        high_ns=high * MILLISECOND,
        answers=3,
        since_at=since,
    )


def pod(name: str) -> PodSeen:
    """Return a pod that was seen."""
    return PodSeen(
        at=1,
        source="recorder",
        pod=name,
        created_at=1,
        started_at=None,
        ready_at=None,
        deleted_at=None,
        gone_at=None,
        exit_code=None,
        exit_reason="",
        precision_ns=1_000_000_000,
    )


def test_the_embedded_bench_has_one_clock() -> None:
    """Everything runs on one machine, whatever was recorded."""
    found = clock_set([offset(100, 200)], "processes")

    assert found is ONE_CLOCK
    clock = found.of_pod("any")
    assert clock is not None
    assert (clock.shift_ns, clock.error_ns) == (0, 0)


def test_an_offset_that_may_be_none_is_an_error_and_no_shift() -> None:
    """Within -10 to +30 ms: stamps stay, and may be 30 ms off."""
    records: list[TelemetryRecord] = [offset(-500, 400), offset(-10, 30)]

    clock = clock_set(records, "kubernetes").of_api_server()

    assert clock is not None
    assert (clock.shift_ns, clock.error_ns) == (0, 30 * MILLISECOND)


def test_a_clock_that_is_surely_ahead_is_taken_off() -> None:
    """Ahead by 4.98 to 5.02 s: 5 s come off, 20 ms stay unknown."""
    records: list[TelemetryRecord] = [offset(4980, 5020, clock="node-2", pods=("a",)), pod("a")]

    clock = clock_set(records, "kubernetes").of_pod("a")

    assert clock is not None
    assert (clock.shift_ns, clock.error_ns) == (5000 * MILLISECOND, 20 * MILLISECOND)


def test_a_drifting_clock_is_undetermined_within_its_periods() -> None:
    """Two periods that exclude each other: what holds for both is stated, and that it moved."""
    records: list[TelemetryRecord] = [offset(-10, 10), offset(60, 80, since=99)]

    measure = clocks_measure(clock_set(records, "kubernetes"))

    (bound,) = measure.bounds
    assert (bound.low_seconds, bound.high_seconds, bound.is_steady) == (-0.01, 0.08, False)
    assert bound.answers == 6


def test_a_clock_that_nobody_asked_is_not_zero() -> None:
    """A pod whose node never answered has no clock, and the run says so."""
    found = clock_set(
        [offset(-1, 1, clock="node-1", pods=("a",)), pod("a"), pod("b")], "kubernetes"
    )

    assert found.of_pod("b") is None
    assert found.of_api_server() is None
    assert clocks_measure(found).unbounded_pods == ("b",)


def test_a_deployments_name_has_the_clock_that_its_pods_share() -> None:
    """The autoscaler's one pod is on n1; consumers are on two nodes, so theirs is not one."""
    records: list[TelemetryRecord] = [
        offset(-1, 1, clock="n1", pods=("autoscaler-1", "consumer-1")),
        offset(-1, 1, clock="n2", pods=("consumer-2",)),
    ]

    found = clock_set(records, "kubernetes")

    assert found.of_pod("autoscaler") == found.by_name["n1"]
    assert found.of_pod("consumer") is None


def joined(at: int, source: str) -> GroupJoined:
    """Return a pod's join, stamped by its own clock."""
    return GroupJoined(at=at * MILLISECOND, source=source, member_id="m")


def test_each_record_is_shifted_by_its_owners_clock_once() -> None:
    """Pod b is 5 s ahead, a may be right, c's clock nobody asked; the recorder's own stay."""
    records: list[TelemetryRecord] = [
        offset(-2, 2, clock="n-a", pods=("a",)),
        offset(4990, 5010, clock="n-b", pods=("b", "recorder")),
        joined(6000, "a"),
        joined(7000, "c"),
        joined(10_000, "b"),
    ]

    found = on_recorders_clock(records, clock_set(records, "kubernetes"))

    assert [(r.source, r.at // MILLISECOND) for r in found if isinstance(r, GroupJoined)] == [
        ("b", 5000),
        ("a", 6000),
        ("c", 7000),
    ]
    assert [r.at for r in found if isinstance(r, ClockOffset)] == [10, 10]
    assert on_recorders_clock(records, ONE_CLOCK) == records


def test_the_start_of_the_stream_is_shifted_with_its_record() -> None:
    """The plan's instants count from it."""
    started = StreamStarted(
        at=9_000 * MILLISECOND,
        source="producer",
        stream_started_at=8_000 * MILLISECOND,
        seed=1,
        profile="step",
        planned_total=1,
        planned_seconds=1,
        partitions=1,
    )
    records: list[TelemetryRecord] = [
        offset(990, 1010, clock="n", pods=("producer",)),
        started,
    ]

    found = on_recorders_clock(records, clock_set(records, "kubernetes"))[-1]

    assert isinstance(found, StreamStarted)
    assert (found.at, found.stream_started_at) == (8_000 * MILLISECOND, 7_000 * MILLISECOND)


def test_a_step_of_a_clock_counts_during_the_run() -> None:
    """Also one whose own stamp it moved out of it."""
    steps: list[TelemetryRecord] = [
        ClockStepped(at=at * 1000 * MILLISECOND, source="a", step_seconds=-4.0)
        for at in (2, 7, 50, 106)
    ]

    start = 10_000 * MILLISECOND
    run = SimpleNamespace(records=steps, load=SimpleNamespace(stream_started_at=start))
    found = list(clock_steps(run, Window(start, 100_000 * MILLISECOND, ())))  # type: ignore[arg-type]

    assert len(found) == 2
    assert re.findall(r"[+-]\d+\.\d+ s", found[1]) == ["-4.000 s", "+40.0 s"]


def test_the_error_of_several_pods_is_the_largest_of_their_clocks() -> None:
    """One pod without a bound has none, and neither have all."""
    near, far = (
        offset(-2, 1, clock="n1", pods=("pod-a",)),
        offset(-30, 10, clock="n2", pods=("pod-b",)),
    )
    found = clock_set([near, far], "kubernetes")

    assert found.error_seconds(["pod-a"]) == 0.002
    assert found.error_seconds(["pod-a", "pod-b"]) == 0.03
    assert found.error_seconds(["pod-a", "elsewhere"]) is None
    assert found.error_seconds([]) == ONE_CLOCK.error_seconds(["pod-a"]) == 0
