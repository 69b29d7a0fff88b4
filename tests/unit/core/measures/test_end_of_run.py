"""Where the measurement window ends, in which state, and what watching cost."""

from __future__ import annotations

import re

import pytest
from tests.fakes.telemetry import SECOND, of

from lagbench.core.measures.evidence.group_events import EventKind, GroupEvent, measured_until
from lagbench.core.measures.run_end import EndState, end_state, observer_cost
from lagbench.core.measures.spark_measures import published_findings, repeats_text, spark_measures
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    OffsetsPublished,
    Phase,
    SparkBatch,
    SparkDriverStarted,
    SparkTask,
)
from lagbench.core.telemetry.records_of_recorder import GroupSample, ReplicaSample, UsageSample


def replicas(spec: int, at: float = 99) -> ReplicaSample:
    """Return a sample of the wanted replicas."""
    return of(ReplicaSample, at, spec=spec)


def group(state: str, at: float = 99) -> GroupSample:
    """Return the group as the broker describes it."""
    return of(GroupSample, at, state=state, members=2)


def state_of(
    ends: dict[int, int] | None, committed: dict[int, int | None] | None, *records: TelemetryRecord
) -> EndState:
    """Return the end state at the floor of 2."""
    return end_state(records, ends=ends, committed=committed, floor=2, until_at=100 * SECOND)


@pytest.mark.parametrize(
    ("ends", "committed", "is_drained", "partitions", "records"),
    [
        ({0: 10, 1: 10}, {0: 10, 1: 7}, False, (1,), 3),
        ({0: 0}, {0: None}, True, (), 0),  # nothing was ever written
        ({0: 5}, {0: None}, False, (0,), 5),
        (None, None, None, (), None),  # without a fence nothing is known
    ],
)
def test_drained_is_decided_for_each_partition(
    ends: dict[int, int] | None,
    committed: dict[int, int | None] | None,
    is_drained: bool | None,
    partitions: tuple[int, ...],
    records: int | None,
) -> None:
    """Without samples neither replicas nor the group are known."""
    found = state_of(ends, committed)

    assert (found.is_drained, found.undrained_partitions) == (is_drained, partitions)
    assert found.undrained_records == records
    assert (found.is_group_stable, found.is_at_floor) == (None, None)


@pytest.mark.parametrize(
    ("state", "spec", "is_stable"),
    [
        ("STABLE", 2, True),
        ("Stable", 2, True),
        ("ConsumerGroupState.STABLE", 2, True),
        ("PREPARING_REBALANCING", 2, False),
        ("EMPTY", 2, False),
        ("EMPTY", 0, True),
    ],
)
def test_stable_is_settled(state: str, spec: int, *, is_stable: bool) -> None:
    """An empty group is settled only when no replica is wanted."""
    found = state_of({}, {}, replicas(spec), group(state))

    assert found.is_group_stable is is_stable
    assert found.is_at_floor is (spec == 2)


@pytest.mark.parametrize(("state", "is_stable"), [("EMPTY", True), ("STABLE", False)])
def test_a_group_for_published_offsets_is_settled_without_members(
    state: str, *, is_stable: bool
) -> None:
    """Spark's consumers join no group: a member of it would be a stranger."""
    found = end_state(
        [replicas(2), group(state)],
        ends={},
        committed={},
        floor=2,
        until_at=100 * SECOND,
        has_members=False,
    )

    assert found.is_group_stable is is_stable


def test_samples_after_the_measurement_window_do_not_count() -> None:
    """The bench scaled to zero afterwards."""
    assert state_of({}, {}, replicas(2), replicas(0, at=200)).replicas == 2
    assert state_of({}, {}, group("EMPTY")).is_group_stable is None  # no replicas were seen


def test_what_was_seen_long_before_the_end_is_not_the_end() -> None:
    """A stable group 4 s before; 3 s are two lost samples and say enough."""
    old = state_of({}, {}, replicas(2, at=96), group("STABLE", at=96))
    recent = state_of({}, {}, replicas(2, at=97), group("STABLE", at=97))

    assert (old.group_state, old.is_group_stable, old.is_at_floor) == (None, None, None)
    assert (recent.is_group_stable, recent.is_at_floor) == (True, True)


def event(at: int, pod: str, kind: EventKind) -> GroupEvent:
    """Return an event at ``at``."""
    return GroupEvent(at, pod, kind)


STOP = [
    event(1, "a", "joined"),
    event(1, "b", "joined"),
    event(50, "b", "sigterm"),
    event(51, "b", "left"),
    event(90, "a", "sigterm"),
    event(91, "a", "left"),
]


@pytest.mark.parametrize(
    ("records", "events", "to_zero", "ends_at"),
    [
        # The phase that stops the consumers.
        ([of(Phase, at=80, name="fence_run", state="started")], STOP, False, 80),
        # The scale-down at 50, before the stream's end, belongs to the run; the stop at 90 not.
        ([of(ReplicaSample, at=95)], STOP, False, 90),
        ([of(ReplicaSample, at=95)], STOP, True, 95),  # the last stop is the policy's own
        ([of(ReplicaSample, at=95)], STOP[:4], False, 95),  # a member stays
        ([], [], False, None),
    ],
)
def test_the_measurement_window_ends_before_the_bench_stops_the_pods(
    records: list[TelemetryRecord], events: list[GroupEvent], *, to_zero: bool, ends_at: int | None
) -> None:
    """The stream ended at 60."""
    found = measured_until(records, events, stream_ended_at=60, may_scale_to_zero=to_zero)

    assert found == ends_at


def usage(second: float, cpu: float, component: str = "broker") -> UsageSample:
    """Return a running total of CPU seconds."""
    memory = {"memory_bytes": int(second) + 1}
    return of(UsageSample, second, component=component, cpu_seconds=cpu, **memory)


def test_cpu_is_the_growth_of_the_running_total() -> None:
    """From 5 to 8 s of CPU in 10 s: 0.3 of a core."""
    cost = observer_cost([usage(0, 5), usage(10, 8), usage(10, 1, "recorder")], 0, 99 * SECOND)

    assert cost.observed_seconds == 10
    assert [(c.component, c.cpu_seconds) for c in cost.components] == [
        ("broker", 3),
        ("recorder", 0),
    ]
    assert cost.components[0].cpu_share == pytest.approx(0.3)
    assert cost.components[0].max_memory_bytes == 11


def test_a_restarted_part_counts_on_from_zero_and_one_reading_says_nothing() -> None:
    """5, 7, then 1 after a restart, 2: 2 + 1 + 1; a single total is no cost of zero."""
    samples = [usage(0, 5), usage(1, 7), usage(2, 1), usage(3, 2)]

    assert observer_cost(samples, 0, 99 * SECOND).total_cpu_seconds == 4
    assert observer_cost(samples[:1], 0, 99).total_cpu_seconds is None


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d[\d,]*", text)


def _start(at: int, checkpointed: dict[str, int] | None, **published: int) -> SparkDriverStarted:
    offsets = {"checkpointed": checkpointed, "published": published}
    return of(SparkDriverStarted, at, "driver", **offsets)


def _batch(at: int, *, seconds: float, rows: int = 100) -> SparkBatch:
    pace = {"trigger_seconds": 2.0, "executors": 2}
    return of(SparkBatch, at, "driver", rows=rows, batch_seconds=seconds, **pace)


def _task(batch: int, partition: int, at: int, attempt: int = 0) -> SparkTask:
    place = {"batch": batch, "partition": partition, "attempt": attempt}
    return of(SparkTask, at, "consumer-0", started_at=(at - 1) * SECOND, rows=10, **place)


def test_batches_are_measured_against_the_trigger() -> None:
    """Batches with messages only; their median, the longest one, and those above the trigger."""
    records: list[TelemetryRecord] = [
        _start(0, None),
        _batch(1, seconds=9.0, rows=0),
        _batch(4, seconds=1.0),
        _batch(8, seconds=3.0),
        _batch(10, seconds=1.5),
    ]
    found = spark_measures(records, 0, 100 * SECOND)

    assert found is not None
    assert (found.batches, found.batches_over_trigger) == (3, 1)
    assert (found.batch_seconds, found.batch_max_seconds) == (1.5, 3.0)
    assert found.executor_seconds == pytest.approx(2 * 9)


def test_a_task_that_was_done_again_is_recomputed() -> None:
    """A later attempt, and the same partition of a batch a second time after a restart."""
    records: list[TelemetryRecord] = [
        _start(0, None),
        _task(1, 0, 3),
        _task(1, 1, 4, attempt=1),
        _task(1, 0, 9),
    ]
    found = spark_measures(records, 0, 100 * SECOND)

    assert found is not None
    assert (found.tasks, found.tasks_recomputed, found.rows_recomputed) == (3, 2, 20)
    assert found.task_seconds == pytest.approx(3)


def test_the_publish_delay_is_that_of_new_offsets() -> None:
    """What is published again while idle has no delay."""
    published = [
        of(OffsetsPublished, at, "driver", delay_seconds=delay)
        for at, delay in ((1, 0.5), (2, None), (3, 1.5))
    ]
    found = spark_measures([_start(0, None), *published], 0, 100 * SECOND)

    assert found is not None
    assert (found.publish_delay_seconds, found.publish_delay_max_seconds) == (1.0, 1.5)


def test_a_stand_in_has_no_such_measures() -> None:
    """Without a driver nothing is measured, which is not zero."""
    assert spark_measures([], 0, SECOND) is None


def test_a_restart_compares_published_and_checkpointed_offsets() -> None:
    """A difference is a finding; agreement and the first start are none."""
    agreeing = _start(5, {"0": 10, "1": 5}, **{"0": 10, "1": 5})
    behind = _start(9, {"0": 30, "1": 5}, **{"0": 10, "1": 6})

    assert published_findings([_start(0, None), agreeing]) == ()
    (found,) = published_findings([_start(0, None), behind])
    assert _numbers(found) == ["1", "20", "1"]


def test_the_batches_with_repeats_are_named() -> None:
    """A killed worker repeats a part of one batch; a driver may repeat more."""
    assert not repeats_text(None)
    assert _numbers(repeats_text({"7": 1500})) == ["1,500", "7"]
    assert _numbers(repeats_text({"7": 15, "9": 40})) == ["55", "2", "9", "40"]
