"""The reaction chain: its links, its clocks, and what is missing in it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.fakes.group_story import change, lag_by_second, ns, timeline
from tests.fakes.telemetry import of

from lagbench.core.clocks import API_SERVER, Clock, ClockSet, OffsetBound, on_recorders_clock
from lagbench.core.measures.evidence.producer_report import LoadWindow
from lagbench.core.measures.reaction import Reaction, reaction
from lagbench.core.measures.reaction_stamps import ReactionInput
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    FirstRecordDone,
    GroupJoined,
    HpaSync,
    KedaPoll,
    LoadStep,
    PartitionsAssigned,
    SparkTask,
)
from lagbench.core.telemetry.records_of_recorder import HpaSample

LOAD = LoadWindow(
    stream_started_at=0,
    first_spike_started_at=ns(10),
    last_spike_ended_at=ns(40),
    spikes=1,
    stream_ended_at=ns(60),
    base_rate_per_second=600,
    spike_rate_per_second=6000,
)
RISE = change(16, 2, 4)
OLD, NEW_A, NEW_B = (
    timeline("old", -9, -8),
    timeline("new-a", 16.1, 17),
    timeline("new-b", 16.2, 17.5),
)


def sync(second: float, metric: float | None) -> HpaSync:
    """Return an HPA sync that read ``metric``."""
    return of(HpaSync, second, "autoscaler", metrics={"m": metric})


def status(second: float, total: float) -> HpaSample:
    """Return the HPA's status as the recorder saw it: a cluster's HPA reports nothing else."""
    return of(HpaSample, second, name="h", totals={"lag": total})


def assigned(pod: str, second: float, owned: list[int], rebalance: int) -> PartitionsAssigned:
    """Return an assignment as the pod reports it."""
    moved = {"partitions": owned, "owned": owned, "rebalance": rebalance}
    return of(PartitionsAssigned, second, pod, is_incremental=True, **moved)


def pod_records(pod: str, joined: float, first: float, done: float) -> list[TelemetryRecord]:
    """Return a pod's way from its join to its first record."""
    return [
        of(GroupJoined, joined, pod),
        assigned(pod, joined + 0.01, [], 1),
        assigned(pod, first, [3], 2),
        of(FirstRecordDone, done, pod),
    ]


PODS = [
    *pod_records("new-a", joined=18, first=21, done=21.5),
    *pod_records("new-b", joined=18.5, first=19, done=19.25),
]
POLL = of(KedaPoll, 12, "autoscaler", metrics={"m": 5000})
RECORDS = [sync(4, 100), sync(9, 100), sync(15.9, 9000), POLL, *PODS]


def chain(**changed: Any) -> Reaction:
    """Return the chain; lag is one sample a second and crosses 2000 at 10.5 s."""
    pods = changed.pop("timelines", [OLD, NEW_A, NEW_B])
    threshold = changed.pop("threshold", 1000)
    load = changed.pop("load", LOAD)
    given: dict[str, Any] = {
        "records": RECORDS,
        "lag": lag_by_second(changed.pop("lags", (0, *[0] * 10, 4000, 9000, 9000))),
        "timelines": {pod.pod: pod for pod in pods},
        "changes": (RISE,),
        "load": load,
        "limits": PolicyLimits(2, 12, threshold, "lagThreshold 1000"),
        "replicas_at_step": 2,
        "until_at": ns(100),
        "step_at": load.first_spike_started_at,
    }
    return reaction(ReactionInput(**(given | changed)))


def test_every_part_of_the_chain() -> None:
    """Each link's stamp and part; the parts sum to the total of 9.25 s."""
    found = chain()

    assert [link.part_seconds for link in found.links] == [
        None,
        *[pytest.approx(part) for part in (0.5, 5.4, 0.1, 0.2, 1.3, 1.0, 0.5, 0.25)],
    ]
    assert (found.total_seconds, found.parts_sum_to_total) == (9.25, True)
    assert (found.is_complete, found.reason) == (True, "")
    assert found.pod_start_percent == pytest.approx(100 * 1.3 / 9)
    assert found.assigned_seconds == 9  # assigned at 19 s, after Ready at 17.5 s
    assert found.pod == "new-b"  # new-a was Ready first, but new-b finished a record before it
    # t1 is known to one sample, a second, and lies half a second after t0.
    assert "1.000 s" in found.links[1].note
    assert " s " not in found.links[2].note


def test_ready_after_assigned_is_clamped_with_a_note() -> None:
    """The readiness probe answers at 20 s, after the pod had worked: parts stay at 0 and sum up."""
    found = chain(timelines=[OLD, timeline("new-b", 16.2, 20)])

    ready, *after = found.links[5:]
    assert ready.at == ns(20)
    assert [link.part_seconds for link in after] == [0, 0, 0]
    assert "1.500 s before" in after[0].note
    assert after[0].stamped_at == ns(18.5)
    assert (found.assigned_seconds, found.parts_sum_to_total) == (10, True)


AT_3 = RISE.model_copy(update={"precision_seconds": 0.4})
BY_KEDA = RISE.model_copy(update={"by": "keda", "precision_seconds": 0.3})
BY_NOBODY = RISE.model_copy(update={"by": "unknown"})


@pytest.mark.parametrize(
    ("given", "read_at", "precision"),
    [
        ({}, 15.9, 0),  # KEDA polled at 12 s, but from one replica on the sync decides
        ({"replicas_at_step": 0}, 12, 0),  # from zero the poll counts
        ({"threshold": None}, 15.9, 0),  # a CPU policy: the sync that changed the replicas
        # Percents are never above 2000.
        ({"records": [sync(1, 40), sync(15.95, 91), *PODS]}, 15.95, 0),
        ({"records": PODS, "changes": (BY_NOBODY,)}, None, None),
        # A cluster's HPA shows in its status what it read.
        (
            {"records": [*PODS, status(13, 1000), status(14.2, 1500), status(15, 2500)]},
            15,
            0.8,
        ),
        # It writes the status after the scale: the reading is placed at t3, as precise as that.
        (
            {"records": [*PODS, status(15.8, 1000), status(16.02, 9000)], "changes": (AT_3,)},
            16,
            0.4,
        ),
        # A status from before the crossing shows an earlier lag.
        ({"records": [*PODS, status(8, 0), status(9, 3000), status(15.5, 9000)]}, 15.5, 6.5),
        # KEDA tells of no poll, and the HPA is idle at zero replicas.
        (
            {
                "records": [*PODS, status(15, 0), status(15.5, 9000)],
                "changes": (BY_KEDA,),
                "replicas_at_step": 0,
            },
            16,
            0.3,
        ),
    ],
)
def test_the_reading_is_that_of_the_ruling_clock(
    given: dict[str, Any], read_at: float | None, precision: float | None
) -> None:
    """Without any reading one link is missing, and the total stands."""
    found = chain(**given)
    read = found.links[2]

    assert read.at == (None if read_at is None else ns(read_at))
    assert read.precision_seconds == (None if precision is None else pytest.approx(precision))
    assert found.ruling_clock == ("keda_poll" if "replicas_at_step" in given else "hpa_sync")
    assert found.is_complete is (read_at is not None and "threshold" not in given)
    assert found.total_seconds == 9.25


def test_a_policy_that_never_scaled_has_a_chain_that_ends() -> None:
    """Lag crossed, it was read, nothing followed: the missing links are named, not zero."""
    found = chain(changes=())

    assert found.is_threshold_crossed is True
    assert (found.pod, found.total_seconds, found.parts_sum_to_total) == (None, None, None)
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
    assert chain(changes=(), lags=lags).is_threshold_crossed is is_crossed


def test_without_a_threshold_or_a_step_there_is_no_crossing() -> None:
    """A CPU policy has no threshold; a steady load has no step, so no chain."""
    cpu = chain(threshold=None)
    steady = chain(load=LOAD.model_copy(update={"first_spike_started_at": None}))

    assert (cpu.links[1].at, cpu.is_threshold_crossed) == (None, None)
    assert (steady.total_seconds, bool(steady.reason)) == (None, True)


def test_a_surplus_pod_without_partition_ends_at_joined() -> None:
    """The only new pod never got a partition."""
    found = chain(records=[of(GroupJoined, 18, "new-a"), *RECORDS[:3]], timelines=[OLD, NEW_A])

    assert (found.pod, found.links[6].at) == ("new-a", ns(18))
    assert (found.assigned_seconds, found.pod_start_percent) == (None, None)
    assert "t7" in found.reason


def test_the_reaction_of_a_worker_of_spark_ends_with_its_first_task() -> None:
    """A worker joins no group: its first finished task stands for the partition and the record."""

    def task(pod: str, began: float, ended: float) -> SparkTask:
        return of(SparkTask, ended, pod, started_at=ns(began))

    records = [sync(15.9, 9000), task("new-b", 22, 26), task("new-a", 20, 24), task("old", 11, 12)]
    found = chain(records=records, has_tasks=True)

    assert (found.pod, found.is_complete) == ("new-a", True)
    assert found.assigned_seconds == pytest.approx(14)
    assert [link.title for link in found.links[6:8]] == ["first task began", "first task finished"]


def clock(name: str, low_ms: int, high_ms: int) -> Clock:
    """Return a steady clock."""
    return Clock(name, OffsetBound(low_ms * 10**6, high_ms * 10**6), is_steady=True, answers=20)


def test_a_pods_stamps_are_put_right_by_the_clock_of_its_node() -> None:
    """The node is ahead by 4.99 to 5.01 s: records are taken back, raw stamps and error kept."""
    ahead = pod_records("new-b", joined=23.5, first=24, done=24.25)
    by_name = {API_SERVER: clock(API_SERVER, -3, 4), "n1": clock("n1", 4990, 5010)}
    clocks = ClockSet(is_one_clock=False, by_name=by_name, name_of_pod={"new-b": "n1"})

    records = on_recorders_clock(ahead, clocks)
    found = chain(records=records, timelines=[OLD, NEW_B], clocks=clocks)

    done = found.links[8]
    assert (done.at, done.stamped_at) == (ns(19.25), ns(24.25))
    assert done.precision_seconds == pytest.approx(0.01)
    assert "n1" in done.note
    assert "+5.000 s" in done.note
    assert found.clocks is not None
    bounds = [(found.low_seconds, found.high_seconds) for found in found.clocks.bounds]
    assert bounds == [(-0.003, 0.004), (4.99, 5.01)]


def test_a_pod_whose_clock_nobody_asked_has_no_precision() -> None:
    """What is not bounded is not exact, and the link says why; so for the producer's step."""
    step = of(LoadStep, 10, "producer-x")
    found = chain(
        records=[step, *pod_records("new-b", 18.5, 19, 19.25)], clocks=ClockSet(is_one_clock=False)
    )

    assert found.links[0].precision_seconds is None
    assert found.links[8].precision_seconds is None
    assert found.links[8].note
