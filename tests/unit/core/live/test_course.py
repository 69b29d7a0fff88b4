"""The live lines of a run are folded from its telemetry, and missing stays missing."""

from __future__ import annotations

import msgspec
import pytest
from tests.fakes.live_cell import live_cell

from lagbench.core.live import (
    Course,
    LiveCell,
    LiveLine,
    LivePhase,
    decode_line,
    encode_line,
)
from lagbench.core.policy import PolicyLimits
from lagbench.core.scenario import Slos
from lagbench.core.telemetry import (
    ActionEnded,
    ActionStarted,
    ConsumerProgress,
    GroupMember,
    GroupMembers,
    LagSample,
    PodStopped,
    ProducerProgress,
    Record,
    ReplicaSample,
    StreamFinished,
    StreamStarted,
)

S = 1_000_000_000
SLOS = Slos()


LIMITS = PolicyLimits(
    floor_replicas=1,
    ceiling_replicas=4,
    lag_threshold_records=100.0,
    threshold_rule="lagThreshold 100",
    scales_at_records=100.0,
)


def cell(*spikes: tuple[float, float]) -> LiveCell:
    """Return a cell with these spikes and the SLOs' defaults."""
    return live_cell(*spikes, slos=SLOS)


def stream_started(at: int = 0) -> StreamStarted:
    """Return the start of the stream."""
    return StreamStarted(
        at=at,
        source="producer",
        stream_started_at=at,
        seed=1,
        profile="step",
        planned_total=1,
        planned_seconds=60.0,
        partitions=2,
    )


def lag(at: int, *rows: tuple[int, int, int | None]) -> LagSample:
    """Return a sample of [partition, end, committed]."""
    return LagSample(at=at, source="recorder", partitions=list(rows))


def replicas(at: int, spec: int, ready: int | None = None) -> ReplicaSample:
    """Return a sample of the replicas."""
    return ReplicaSample(
        at=at, source="recorder", spec=spec, current=spec, ready=spec if ready is None else ready
    )


def produced(at: int, planned: int, acked: int) -> ProducerProgress:
    """Return the producer's report of its totals."""
    return ProducerProgress(
        at=at,
        source="producer",
        planned=planned,
        sent=acked,
        acked=acked,
        failed=0,
        lateness_p50_ms=None,
        lateness_p99_ms=None,
        lateness_max_ms=None,
    )


def worked(pod: str, at: int, rate: float) -> ConsumerProgress:
    """Return a pod's report of its rate."""
    return ConsumerProgress(
        at=at,
        source=pod,
        processed_total=0,
        consume_rate=rate,
        inflight=0,
        queued=0,
        assigned_partitions=1,
        cpu_seconds=0,
    )


def members(at: int, **owned: list[int]) -> GroupMembers:
    """Return the group's members by pod."""
    found = [
        GroupMember(member_id=pod, client_id=pod, host="/127.0.0.1", partitions=partitions)
        for pod, partitions in owned.items()
    ]
    return GroupMembers(at=at, source="recorder", members=found)


def course_of(*records: Record) -> Course:
    """Return a course that has taken the records, each when it was sent."""
    course = Course(cell(), SLOS, LIMITS)
    for record in records:
        course.take(record, record.at)
    return course


def test_nothing_seen_is_not_zero() -> None:
    """Before any record every figure is None."""
    line = Course(cell(), SLOS, LIMITS).line(S)

    figures = [line.second, line.lag, line.replicas, line.time_lag_seconds]
    rates = [line.planned_per_second, line.produced_per_second, line.processed_per_second]
    assert figures == [None] * 4
    assert rates == [None] * 3


def test_the_first_line_alone_has_the_cell() -> None:
    """A reader that begins at the first line learns the cell; it is not repeated."""
    course = Course(cell(), SLOS, LIMITS)

    assert course.line(S).run == cell()
    assert course.line(2 * S).run is None


def test_the_lag_is_that_of_each_partition_and_their_sum() -> None:
    """Committed offsets are subtracted from the ends, never below zero."""
    line = course_of(lag(S, (0, 100, 40), (1, 50, 55))).line(S)

    assert line.lag_by_partition == [60, 0]
    assert line.lag == 60


def test_a_partition_without_a_commit_makes_the_total_unknown() -> None:
    """Its lag is None, and so are the total and the time lag."""
    line = course_of(lag(S, (0, 100, 40), (1, 50, None))).line(S)

    assert line.lag_by_partition == [60, None]
    assert line.lag is line.time_lag_seconds is None


def test_an_added_partition_begins_at_zero() -> None:
    """A partition beyond those of the stream's start waits wholly until its first commit."""
    line = course_of(lag(S, (0, 100, 40), (1, 50, 50), (2, 30, None))).line(S)

    assert line.lag == 90


def test_the_time_lag_is_the_age_of_the_oldest_message_without_a_commit() -> None:
    """The message at the committed offset was written when the end passed it."""
    samples = [lag(at * S, (0, 10 * at, 20), (1, 0, None)) for at in range(1, 8)]

    assert course_of(*samples).line(7 * S).time_lag_seconds == 5.0


def test_a_figure_that_is_not_renewed_goes_missing() -> None:
    """3.5 s after its last arrival a reading says nothing of now."""
    course = course_of(lag(S, (0, 100, 40), (1, 5, 5)), replicas(S, 2), worked("a", S, 10.0))

    assert course.line(4 * S).lag == 60
    late = course.line(5 * S)
    assert late.lag is late.replicas is late.processed_per_second is None


def test_rates_are_differences_and_sums() -> None:
    """Planned and produced are the producer's differences, processed the sum over the pods."""
    line = course_of(
        produced(S, 100, 90), produced(3 * S, 700, 490), worked("a", 3 * S, 20.0),
        worked("b", 3 * S, 5.0), PodStopped(at=3 * S, source="b", reason="", abandoned=0,
        processed_total=0),
    ).line(3 * S)  # fmt: skip

    assert (line.planned_per_second, line.produced_per_second) == (300.0, 200.0)
    assert line.processed_per_second == 20.0


def test_a_finished_stream_has_a_rate_of_zero() -> None:
    """The end of the stream was reported, so its rate is not missing."""
    finished = msgspec.json.decode(
        b'{"kind":"stream_finished","at":9,"source":"p","planned":1,"sent":1,"acked":1,"failed":0,'
        b'"unknown":0,"lateness_p50_ms":0,"lateness_p99_ms":0,"lateness_max_ms":0,'
        b'"fell_behind":false,"reason":"","stream_sha256":""}',
        type=StreamFinished,
    )

    assert course_of(finished).line(60 * S).produced_per_second == 0.0


def test_only_changed_assignments_are_told() -> None:
    """A line has the pods whose partitions changed, and those that have left."""
    course = course_of(members(S, a=[0, 1]))
    assert course.line(S).assigned == {"a": [0, 1]}

    course.take(members(2 * S, a=[0, 1]), 2 * S)
    assert course.line(2 * S).assigned is None

    course.take(members(3 * S, b=[0, 1]), 3 * S)
    assert course.line(3 * S).assigned == {"a": None, "b": [0, 1]}


def test_what_happened_is_told_once() -> None:
    """Phases and actions are in the first line after them, and in no other."""
    course = Course(cell(), SLOS, LIMITS)
    course.take_phase(LivePhase(at=S, name="inject_spike", state="started"))
    begun = ActionStarted(
        at=S, source="actions", number=0, action="kill_pod", targets=["a"], planned_at=None
    )
    course.take(begun, S)
    course.take(ActionEnded(at=S, source="actions", number=0, action="kill_pod", error="no"), S)

    line, after = course.line(S), course.line(2 * S)

    assert [phase.name for phase in line.phases] == ["inject_spike"]
    assert [(action.state, action.error) for action in line.actions] == [
        ("started", ""),
        ("ended", "no"),
    ]
    assert (after.phases, after.actions) == ([], [])


def test_the_stream_has_its_own_seconds() -> None:
    """The second of the stream counts from its planned start."""
    assert course_of(stream_started(10 * S)).line(12 * S).second == 2.0


@pytest.mark.parametrize("is_last", [False, True])
def test_a_line_survives_its_encoding(is_last: bool) -> None:
    """Reading what was written gives the same line; a line end closes it."""
    line = course_of(lag(S, (0, 100, 40), (1, 50, 55))).line(S, verdict="pass", is_last=is_last)

    data = encode_line(line)

    assert data.count(b"\n") == 1
    assert decode_line(data) == line
    assert isinstance(decode_line(data), LiveLine)
