"""The reaction chain."""

import re

import pytest

from lagbench.core.clocks import ONE_CLOCK, ClockSet
from lagbench.core.measures.evidence.load_window import LoadWindow
from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.evidence.series import lag_series
from lagbench.core.measures.reaction.chain import Reaction, reaction
from lagbench.core.measures.reaction.stamps import ReactionInput
from lagbench.core.measures.replicas.steps import ReplicaChange
from lagbench.core.policy.limits import PolicyLimits
from lagbench.core.telemetry.records import (
    FirstRecordDone,
    GroupJoined,
    HpaSync,
    KedaPoll,
    PartitionsAssigned,
    SparkTask,
    TelemetryRecord,
)

SECOND = 1_000_000_000


def ns(second: float) -> int:
    """Seconds as nanoseconds."""
    return round(second * SECOND)


def sync(second: float, metric: float | None) -> HpaSync:
    """Return an HPA sync that read ``metric``."""
    return HpaSync(
        at=ns(second),
        source="autoscaler",
        hpa="h",
        spec_replicas=2,
        status_replicas=2,
        metrics={"m": metric},
        proposal=2,
        desired=2,
        able_to_scale="",
        scaling_limited="",
        scaling_active="",
    )


def pod_records(pod: str, joined: float, first: float, done: float) -> list[TelemetryRecord]:
    """Return a pod's way from its join to its first record."""
    return [
        GroupJoined(at=ns(joined), source=pod, member_id="m"),
        PartitionsAssigned(
            at=ns(joined + 0.01),
            source=pod,
            member_id="m",
            partitions=[],
            owned=[],
            is_incremental=True,
            rebalance=1,
        ),
        PartitionsAssigned(
            at=ns(first),
            source=pod,
            member_id="m",
            partitions=[3],
            owned=[3],
            is_incremental=True,
            rebalance=2,
        ),
        FirstRecordDone(at=ns(done), source=pod, partition=3, offset=1),
    ]


RISE = ReplicaChange(
    at=ns(16),
    replicas_before=2,
    replicas_after=4,
    by="hpa",
    reason="",
    precision_seconds=0,
    is_reversal=False,
    is_flip=False,
)
LOAD = LoadWindow(
    stream_started_at=0,
    first_spike_started_at=ns(10),
    last_spike_ended_at=ns(40),
    spikes=1,
    stream_ended_at=ns(60),
    base_rate_per_second=600,
    spike_rate_per_second=6000,
)
TIMELINES = [
    PodTimeline("old", ns(-9), ns(-8), None, 0.001, 0.001),
    PodTimeline("new-a", ns(16.1), ns(17), None, 0.001, 0.001),
    PodTimeline("new-b", ns(16.2), ns(17.5), None, 0.001, 0.001),
]
RECORDS: list[TelemetryRecord] = [
    sync(4, 100),
    sync(9, 100),
    sync(15.9, 9000),
    KedaPoll(
        at=ns(12), source="autoscaler", scaled_object="c", metrics={"m": 5000}, is_active=True
    ),
    *pod_records("new-a", joined=18, first=21, done=21.5),
    *pod_records("new-b", joined=18.5, first=19, done=19.25),
]


def chain(
    *,
    records: list[TelemetryRecord] = RECORDS,
    changes: tuple[ReplicaChange, ...] = (RISE,),
    timelines: list[PodTimeline] = TIMELINES,
    lags: tuple[int | None, ...] = (0, *[0] * 10, 4000, 9000, 9000),
    replicas: int | None = 2,
    threshold: float | None = 1000,
    load: LoadWindow = LOAD,
    clocks: ClockSet = ONE_CLOCK,
    has_tasks: bool = False,
) -> Reaction:
    """Return the chain; lag is one sample a second and crosses 2000 at 10.5 s."""
    return reaction(
        ReactionInput(
            records=records,
            has_tasks=has_tasks,
            lag=lag_series(
                at=[ns(second) for second in range(len(lags))],
                partition=[0] * len(lags),
                end_offset=[100_000] * len(lags),
                committed=[None if lag is None else 100_000 - lag for lag in lags],
            ),
            timelines={timeline.pod: timeline for timeline in timelines},
            changes=changes,
            load=load,
            limits=PolicyLimits(2, 12, threshold, "lagThreshold 1000"),
            replicas_at_step=replicas,
            until_at=ns(100),
            clocks=clocks,
            step_at=load.first_spike_started_at,
        )
    )


def test_every_part_of_the_chain() -> None:
    """Each link's stamp and part; the parts sum to the total of 9.25 s."""
    found = chain()

    assert [link.part_seconds for link in found.links] == [
        None,
        *[pytest.approx(part) for part in (0.5, 5.4, 0.1, 0.2, 1.3, 1.0, 0.5, 0.25)],
    ]
    assert found.total_seconds == 9.25
    assert found.parts_sum_seconds == pytest.approx(9.25)
    assert found.parts_sum_to_total
    assert found.is_complete
    assert found.reason == ""


def test_the_chain_is_that_of_the_pod_that_worked_first() -> None:
    """new-a was created and Ready first, but new-b finished a record before it."""
    assert chain().pod == "new-b"


def test_the_slo_counts_to_ready_and_assigned() -> None:
    """Assigned at 19 s after Ready at 17.5 s: 9 s after the step."""
    assert chain().assigned_seconds == 9


def test_ready_after_assigned_is_clamped_with_a_note() -> None:
    """The readiness probe answers at 20 s, after the pod had worked: parts stay at 0 and sum up."""
    late = [TIMELINES[0], PodTimeline("new-b", ns(16.2), ns(20), None, 0.001, 0.001)]

    found = chain(timelines=late)

    ready, *after = found.links[5:]
    assert ready.at == ns(20)
    assert [link.part_seconds for link in after] == [0, 0, 0]
    assert "1.500 s before" in after[0].note
    assert after[0].stamped_at == ns(18.5)
    assert found.assigned_seconds == 10
    assert found.parts_sum_to_total


def test_the_hpa_rules_from_one_replica_on() -> None:
    """KEDA polled at 12 s, but the sync at 15.9 s decided."""
    found = chain()

    assert found.ruling_clock == "hpa_sync"
    assert found.links[2].stamped_at == ns(15.9)


def test_keda_rules_from_zero() -> None:
    """From 0 replicas the poll at 12 s counts, and the threshold is that of one replica."""
    found = chain(replicas=0)

    assert found.ruling_clock == "keda_poll"
    assert found.links[2].stamped_at == ns(12)
    assert found.threshold_records == 1000


def test_a_policy_that_never_scaled_has_a_chain_that_ends() -> None:
    """Lag crossed, it was read, nothing followed: the missing links are named, not zero."""
    found = chain(changes=())

    assert found.is_threshold_crossed is True
    assert found.pod is None
    assert found.total_seconds is None
    assert found.parts_sum_to_total is None
    assert not found.is_complete
    assert re.findall(r"t\d", found.reason)[:2] == ["t3", "t4"]


@pytest.mark.parametrize(
    ("lags", "is_crossed"),
    [
        ((0,) * 101, False),
        ((0,) * 55 + (None,) * 2 + (0,) * 44, False),  # two lost samples
        ((0,) * 55 + (None,) * 25 + (0,) * 21, None),
        ((None,) * 101, None),
        ((0,) * 50, None),  # silent until the end at 100 s
        ((0,) * 55 + (None,) * 25 + (9000,) * 21, True),
    ],
)
def test_lag_never_crossed_only_where_it_was_seen(
    lags: tuple[int | None, ...], is_crossed: bool | None
) -> None:
    """A spike may have come and gone while nobody saw the lag."""
    found = chain(changes=(), lags=lags)

    assert found.is_threshold_crossed is is_crossed


def silent_autoscaler() -> list[TelemetryRecord]:
    """Return the records without what the embedded autoscaler tells."""
    return [record for record in RECORDS if not isinstance(record, HpaSync | KedaPoll)]


def test_without_any_reading_one_link_is_missing() -> None:
    """Somebody scaled, nobody knows who: t3's part counts from t1, the total stands."""
    found = chain(records=silent_autoscaler(), changes=(RISE.model_copy(update={"by": "unknown"}),))

    assert found.links[2].at is None
    assert found.links[3].part_seconds == pytest.approx(5.5)
    assert found.total_seconds == 9.25
    assert found.parts_sum_to_total
    assert not found.is_complete


def test_a_cpu_policy_without_threshold_has_no_crossing() -> None:
    """What it read is the sync that changed the replicas."""
    found = chain(threshold=None)

    assert found.links[1].at is None
    assert found.is_threshold_crossed is None
    assert found.links[2].stamped_at == ns(15.9)
    assert found.total_seconds == 9.25


def test_a_cpu_policy_with_a_threshold_shows_the_sync_that_acted() -> None:
    """Its readings are percents and never above 2000; the sync before the change counts."""
    found = chain(records=[sync(1, 40), sync(15.95, 91), *silent_autoscaler()])

    assert found.links[2].stamped_at == ns(15.95)


def test_a_steady_load_has_no_chain() -> None:
    """No step, no reaction."""
    found = chain(load=LOAD.model_copy(update={"first_spike_started_at": None}))

    assert (found.total_seconds, bool(found.reason)) == (None, True)


def test_a_surplus_pod_without_partition_ends_at_joined() -> None:
    """The only new pod never got a partition."""
    found = chain(
        records=[GroupJoined(at=ns(18), source="new-a", member_id="m"), *RECORDS[:3]],
        timelines=TIMELINES[:2],
    )

    assert found.pod == "new-a"
    assert found.links[6].at == ns(18)
    assert found.assigned_seconds is None
    assert "t7" in found.reason


def test_the_reaction_of_a_worker_of_spark_ends_with_its_first_task() -> None:
    """A worker joins no group: its first finished task stands for the partition and the record."""

    def task(pod: str, began: float, ended: float) -> SparkTask:
        return SparkTask(
            at=ns(ended),
            source=pod,
            batch=1,
            partition=0,
            attempt=0,
            started_at=ns(began),
            rows=1,
            first_offset=0,
            last_offset=0,
        )

    records = [sync(15.9, 9000), task("new-b", 22, 26), task("new-a", 20, 24), task("old", 11, 12)]
    found = chain(records=records, has_tasks=True)

    assert found.pod == "new-a"
    assert found.is_complete
    assert found.assigned_seconds == pytest.approx(14)
    assert [link.title for link in found.links[6:8]] == ["first task began", "first task finished"]
