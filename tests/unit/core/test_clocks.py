"""The clocks of a run and what they do to its stamps."""

from __future__ import annotations

from lagbench.core.clocks import API_SERVER, ONE_CLOCK, clock_set, clocks_measure
from lagbench.core.telemetry import ClockOffset, PodSeen, TelemetryRecord

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
    assert clocks_measure(found).text == "one clock: all ran on one machine"
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


def test_a_drifting_clock_is_undetermined_within_its_stretches() -> None:
    """Two stretches that exclude each other: what holds for both is stated, and that it moved."""
    records: list[TelemetryRecord] = [offset(-10, 10), offset(60, 80, since=99)]

    measure = clocks_measure(clock_set(records, "kubernetes"))

    (bound,) = measure.bounds
    assert (bound.low_seconds, bound.high_seconds, bound.is_steady) == (-0.01, 0.08, False)
    assert bound.answers == 6
    assert "API server -0.010 to +0.080 s, drifting" in measure.text


def test_a_clock_that_nobody_asked_is_not_zero() -> None:
    """A pod whose node never answered has no clock, and the run says so."""
    found = clock_set(
        [offset(-1, 1, clock="node-1", pods=("a",)), pod("a"), pod("b")], "kubernetes"
    )

    assert found.of_pod("b") is None
    assert found.of_api_server() is None
    assert "API server not bounded; node-1 -0.001 to +0.001 s; not bounded: the clocks of b" in (
        clocks_measure(found).text
    )


def test_a_deployments_name_has_the_clock_that_its_pods_share() -> None:
    """The autoscaler's one pod is on n1; consumers are on two nodes, so theirs is not one."""
    records: list[TelemetryRecord] = [
        offset(-1, 1, clock="n1", pods=("autoscaler-1", "consumer-1")),
        offset(-1, 1, clock="n2", pods=("consumer-2",)),
    ]

    found = clock_set(records, "kubernetes")

    assert found.of_pod("autoscaler") == found.by_name["n1"]
    assert found.of_pod("consumer") is None
