"""The live lines of a run are folded from its telemetry, and missing stays missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.fakes.live_cell import live_cell
from tests.fakes.telemetry import SECOND as S
from tests.fakes.telemetry import of

from lagbench.core.live.live_course import Course
from lagbench.core.live.live_line import (
    LINES_EACH_SECOND,
    MOST_BYTES,
    LiveLine,
    LivePhase,
    decode_line,
    encode_line,
    has_room,
    seconds_to_next_line,
)
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.telemetry.records_of_programs import (
    ActionEnded,
    ActionStarted,
    ConsumerProgress,
    PodStopped,
    ProducerProgress,
    Record,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMember,
    GroupMembers,
    GroupSample,
    LagSample,
    ReplicaSample,
)

LIMITS = PolicyLimits(
    floor_replicas=1,
    ceiling_replicas=4,
    lag_threshold_records=100.0,
    threshold_rule="lagThreshold 100",
    scales_at_records=100.0,
)


def course(
    *records: Record,
    spikes: Sequence[tuple[float, float]] = (),
    slos: Slos | None = None,
    limits: PolicyLimits = LIMITS,
    **kind: Any,
) -> Course:
    """Return a course that has taken the records, each when it was sent."""
    slos = slos or Slos()
    made = Course(live_cell(*spikes, slos=slos), slos, limits, **kind)
    for record in records:
        made.take(record, record.at)
    return made


def line(*records: Record, at: float) -> LiveLine:
    """Return the line of that second after the records."""
    return course(*records).line(round(at * S))


def stream_started(second: float = 0) -> StreamStarted:
    """Return the start of the stream."""
    return of(StreamStarted, second, "producer", stream_started_at=round(second * S))


def lag(second: float, *rows: tuple[int, int, int | None]) -> LagSample:
    """Return a sample of [partition, end, committed]."""
    return of(LagSample, second, partitions=list(rows))


def replicas(second: float, spec: int) -> ReplicaSample:
    """Return a sample of the replicas, all of which are Ready."""
    return of(ReplicaSample, second, spec=spec, current=spec, ready=spec)


def produced(second: int, planned: int, acked: int) -> ProducerProgress:
    """Return the producer's report of its totals."""
    return of(ProducerProgress, second, "producer", planned=planned, sent=acked, acked=acked)


def worked(pod: str, second: int, rate: float) -> ConsumerProgress:
    """Return a pod's report of its rate."""
    return of(ConsumerProgress, second, pod, consume_rate=rate)


def test_nothing_seen_is_not_zero_and_the_first_line_alone_has_the_cell() -> None:
    """A reader that begins at the first line learns the cell; it is not repeated."""
    made = course()
    first = made.line(S)

    rates = [first.planned_per_second, first.produced_per_second, first.processed_per_second]
    assert [first.second, first.lag, first.replicas, first.time_lag_seconds, *rates] == [None] * 7
    assert (first.run, made.line(2 * S).run) == (live_cell(slos=Slos()), None)


@pytest.mark.parametrize(
    ("rows", "by_partition", "total"),
    [
        ([(0, 100, 40), (1, 50, 55)], [60, 0], 60),  # never below zero
        ([(0, 100, 40), (1, 50, None)], [60, None], None),  # without a commit it is unknown
        ([(0, 100, 40), (1, 50, 50), (2, 30, None)], [60, 0, 30], 90),  # added: it begins at 0
    ],
)
def test_the_lag_is_that_of_each_partition_and_their_sum(
    rows: list[tuple[int, int, int | None]], by_partition: list[int | None], total: int | None
) -> None:
    """An unknown lag makes the total and the time lag unknown."""
    found = line(lag(1, *rows), at=1)

    assert (found.lag_by_partition, found.lag) == (by_partition, total)
    assert (found.time_lag_seconds is None) is (total is None)


def test_the_time_lag_is_the_age_of_the_oldest_message_without_a_commit() -> None:
    """The message at the committed offset was written when the end passed it."""
    samples = [lag(at, (0, 10 * at, 20), (1, 0, None)) for at in range(1, 8)]

    assert line(*samples, at=7).time_lag_seconds == 5.0


def test_a_figure_that_is_not_renewed_goes_missing() -> None:
    """3.5 s after its last arrival a reading says nothing of now."""
    made = course(lag(1, (0, 100, 40), (1, 5, 5)), replicas(1, 2), worked("a", 1, 10.0))

    assert made.line(4 * S).lag == 60
    late = made.line(5 * S)
    assert late.lag is late.replicas is late.processed_per_second is None


def test_rates_are_differences_and_sums() -> None:
    """Planned and produced are the producer's differences, processed the sum over the pods."""
    stopped = of(PodStopped, 3, "b")
    reports = [produced(1, 100, 90), produced(3, 700, 490), worked("a", 3, 20.0)]
    found = line(*reports, worked("b", 3, 5.0), stopped, stream_started(1), at=3)

    assert (found.planned_per_second, found.produced_per_second) == (300.0, 200.0)
    assert (found.processed_per_second, found.second) == (20.0, 2.0)


def test_a_finished_stream_has_a_rate_of_zero() -> None:
    """The end of the stream was reported, so its rate is not missing."""
    finished = of(StreamFinished)

    assert line(finished, at=60).produced_per_second == 0.0


def committed(*commits: tuple[int | None, int | None], later: int = 0) -> float | None:
    """Return the rate after a second each of the two partitions' commits."""
    samples = [
        lag(second, (0, 10_000, first), (1, 10_000, other))
        for second, (first, other) in enumerate(commits)
    ]
    found = course(*samples, reports_owners=False, reports_work=False)
    return found.line((len(commits) - 1 + later) * S).processed_per_second


BUSY: list[tuple[int | None, int | None]] = [(100 * second, 0) for second in range(11)]


@pytest.mark.parametrize(
    ("commits", "later", "rate"),
    [
        ([*[(500, 500)] * 20, *[(500 + 100 * s, 500 + 20 * s) for s in range(1, 11)]], 0, 120.0),
        ([(500, 500)] * 20, 0, 0.0),
        (BUSY, 0, 100.0),
        ([*[(0, None)] * 5, *[(0, 400)] * 4], 0, 50.0),  # the topic is the run's own
        ([*[(900, 0)] * 6, (100, 0)], 0, 0.0),  # offsets that went back
        (BUSY[:4], 0, None),  # too short a time
        ([(None, None)] * 11, 0, None),
        (BUSY, 10, None),  # the recorder went silent
    ],
)
def test_a_group_that_reports_nothing_has_the_rate_of_its_commits(
    commits: list[tuple[int | None, int | None]], later: int, rate: float | None
) -> None:
    """That of the last ten seconds; what is not known is missing."""
    assert committed(*commits, later=later) == rate


def test_commits_in_steps_make_an_even_rate() -> None:
    """A client that commits every 5 s is not shown as 0 and peaks by turns."""
    steps = [(500 * (second // 5), 0) for second in range(31)]

    assert {committed(*steps[:seen]) for seen in range(16, 31)} == {100.0}


@pytest.mark.parametrize(
    ("task", "is_own", "said"),
    [
        ("lag_drained", True, "no commit for 30 s, 22 messages uncommitted"),
        ("lag_drained", False, None),
        ("group_settled", True, None),
    ],
)
def test_an_own_consumer_that_commits_late_is_waited_for_by_name(
    task: str, is_own: bool, said: str | None
) -> None:
    """The state of the line says how long the wait for the last commit may take."""
    samples = [lag(second, (0, 122, 100)) for second in range(41)]
    found = course(*samples, reports_work=not is_own, drain_seconds=900.0)
    found.take_phase(LivePhase(at=10 * S, name=task, state="started"))

    state = found.line(40 * S).state or ""

    assert state.partition(": ")[2].partition(":")[0] == (said or "")
    assert said is None or state.endswith("or wait up to 880 s")


@pytest.mark.parametrize(
    ("planned", "said"),
    [(None, ""), (71, "waits up to 70 s for a whole minute, which the cron windows need"), (1, "")],
)
def test_a_start_that_waits_for_a_whole_minute_says_so(planned: int | None, said: str) -> None:
    """Cron windows need one; the stream of others starts at once."""
    found = course()
    found.stream_planned_at = None if planned is None else planned * S
    found.take_phase(LivePhase(at=S, name="inject_spike", state="started"))

    assert (found.line(2 * S).state or "").partition(": ")[2] == said


def members(*held: tuple[str, list[int]]) -> GroupMembers:
    """Return members with these client ids and partitions."""
    found = [
        GroupMember(member_id=f"m-{number}", client_id=name, host="", partitions=partitions)
        for number, (name, partitions) in enumerate(held)
    ]
    return of(GroupMembers, 1, members=found)


def group(state: str) -> GroupSample:
    """Return a sample of the group in a state."""
    return of(GroupSample, 1, state=state)


STABLE = members(("a", [0]), ("b", [1]))
IN_REBALANCE = members(("a", []), ("c", []))


@pytest.mark.parametrize(
    ("records", "changed"),
    [
        # More pods than partitions leave idle members, which are there.
        ([members(("a", [0, 1]), ("c", []))], {"a": [0, 1], "c": []}),
        ([STABLE, members(("a", [0, 1]), ("b", []))], {"a": [0, 1], "b": []}),
        ([STABLE, members(("a", [0]))], {"b": None}),
        ([STABLE, STABLE], None),
        # A consumer may set one client id for all of its members.
        ([members(("shop", [3, 0]), ("shop", [1]), ("shop", []))], {"shop": [0, 1, 3]}),
        # A classic group reports no assignment until it is stable; a member may leave all the same.
        ([STABLE, group("preparing_rebalancing"), IN_REBALANCE], {"b": None}),
        (
            [STABLE, group("completing_rebalancing"), IN_REBALANCE, group("stable"), IN_REBALANCE],
            {"a": [], "c": []},
        ),
    ],
)
def test_only_changed_assignments_are_told(
    records: list[Record], changed: dict[str, list[int] | None] | None
) -> None:
    """A line has the members whose partitions changed, and those that have left."""
    made = course(*records[:-1])
    made.line(S)
    made.take(records[-1], S)

    assert made.line(S).assigned == changed


def test_what_happened_is_told_once() -> None:
    """Phases and actions are in the first line after them, and in no other."""
    begun, ended = of(ActionStarted, 1, targets=["a"]), of(ActionEnded, 1, error="no")
    made = course(begun, ended)
    made.take_phase(LivePhase(at=S, name="inject_spike", state="started"))

    first, after = made.line(S), made.line(2 * S)

    assert [phase.name for phase in first.phases] == ["inject_spike"]
    assert [(one.state, one.error) for one in first.actions] == [("started", ""), ("ended", "no")]
    assert (after.phases, after.actions) == ([], [])


def test_a_line_survives_its_encoding() -> None:
    """Reading what was written gives the same line; a line end closes it."""
    found = course(lag(1, (0, 100, 40), (1, 50, 55)), members(("a", [0]), ("b", [])))
    made = found.line(S, verdict="pass", is_last=True)
    data = encode_line(made)

    assert data.count(b"\n") == 1
    assert decode_line(data) == made
    assert decode_line(b'{"at":1,"assigned":{"a":[],"c":null}}').assigned == {"a": [], "c": None}


def test_the_file_of_the_longest_run_is_bounded() -> None:
    """Four days, the longest Dag run, make fewer than 42,000 lines, and a full file takes none."""
    lines, second = 0, 0
    while second < 4 * 86_400:
        second += seconds_to_next_line(lines)
        lines += 1

    assert lines < 42_000
    assert seconds_to_next_line(LINES_EACH_SECOND - 1) == 1
    assert has_room(MOST_BYTES - 3, b"{}\n")
    assert not has_room(MOST_BYTES - 2, b"{}\n")
