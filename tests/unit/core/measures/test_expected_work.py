"""What the group would have done, and who counts for a partition."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.group_story import event

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.expected_work import (
    Counterfactual,
    CountingOwners,
    counting_owners,
    pod_rate_per_second,
)
from lagbench.core.measures.partition_work import PartitionWork, PodRates

BINS = 400


def work(arrivals: list[float], waiting: list[float]) -> PartitionWork:
    """Return partitions with steady arrivals (per bin) and what waits in every bin."""
    shape = (len(arrivals), BINS)
    return PartitionWork(
        arrivals=np.broadcast_to(np.array(arrivals)[:, None], shape).astype(np.float32),
        waiting=np.broadcast_to(np.array(waiting)[:, None], shape).astype(np.float32),
        done=None,
        lost=np.zeros(BINS, dtype=np.int64),
        pod_rates=None,
        message_seconds=None,
    )


def owners(*events: GroupEvent, partitions: int = 2) -> CountingOwners:
    """Return the counting owners after ``events``."""
    return counting_owners(events, 0, partitions)


def expected(found: PartitionWork, by: CountingOwners, first: float, last: float) -> list[float]:
    """Return what is expected per bin of pods that do 500/s."""
    bins = Counterfactual(found, by, 500.0).expected(round(first * 10), round(last * 10))
    return [round(count, 3) for count in bins.tolist()]


START = [event(0, "a", "assigned", {0}), event(0, "b", "assigned", {1})]


BUSY = work([0, 0], [9000, 9000])

HANDED_OVER = [event(0, "a", "assigned", {0, 1}), event(5, "b", "joined")]


@pytest.mark.parametrize(
    ("found", "by", "first", "bins"),
    [
        # Partition 0 has more than a pod can do, partition 1 30 a bin.
        (work([0, 30], [9000, 0]), owners(*START), 1, [80.0] * 10),
        (work([0, 0], [0, 0]), owners(*START), 1, [0.0] * 10),
        # A hot partition left alone: one pod works, the other has nothing.
        (work([0, 0], [10_000, 0]), owners(*START), 1, [50.0] * 10),
        (  # a added pod counts from the instant it owns a partition
            BUSY,
            owners(*HANDED_OVER, event(5, "a", "revoked", {0}), event(6, "b", "assigned", {1})),
            5,
            [50.0] * 10 + [100.0] * 10,
        ),
        (  # an eager rebalance takes nobody out: old owners count until new ones are assigned
            BUSY,
            owners(
                *START,
                *(event(5, pod, "revoked", set()) for pod in "ab"),
                *(event(6, pod, "assigned", {number}) for number, pod in enumerate("ab")),
            ),
            5,
            [100.0] * 20,
        ),
        (  # a pod that died counts on: what its death costs is what its partitions wait
            BUSY,
            owners(*START, event(5, "b", "died"), event(50, "a", "assigned", {0, 1})),
            4,
            [100.0] * 20,
        ),
        # A partition whose owner was never known counts for nobody.
        (BUSY, owners(event(0, "a", "assigned", {0})), 1, [50.0] * 10),
    ],
)
def test_pods_do_what_waits_up_to_what_they_can(
    found: PartitionWork, by: CountingOwners, first: int, bins: list[float]
) -> None:
    """A pod does 50 a bin."""
    assert expected(found, by, first, first + len(bins) / 10) == bins


def test_pods_are_expected_to_do_no_more_than_a_slow_downstream_lets_them() -> None:
    """Slow by 4 from bin 15 on: each of the two pods of 50 a bin is expected to do 12.5."""
    slowness = np.ones(BINS)
    slowness[15:] = 4.0
    busy = work([0, 0], [9000, 9000])

    bins = Counterfactual(busy, owners(*START), 500.0, slowness).expected(10, 20)

    assert bins.tolist() == [100.0] * 5 + [25.0] * 5


def test_a_leaving_pod_counts_until_it_is_asked_to_stop() -> None:
    """Then the rest must do what it can: all that is offered, not two pods' work."""
    found = owners(
        *START,
        event(5, "b", "sigterm"),
        event(5.5, "b", "left"),
        event(8, "a", "assigned", {0, 1}),
    )

    assert expected(work([0, 0], [9000, 9000]), found, 4, 6) == [100.0] * 10 + [50.0] * 10
    assert expected(work([10, 20], [0, 0]), found, 4, 6) == [30.0] * 20


@pytest.mark.parametrize(
    ("done", "nominal", "rate"),
    [
        (400, 500.0, 400.0),
        (700, 500.0, 500.0),
        (400, None, 400.0),
    ],
    ids=["slower than the settings", "faster than they allow", "no cost of a message"],
)
def test_what_a_pod_can_do_is_what_pods_did(done: int, nominal: float | None, rate: float) -> None:
    """The median over seconds in which work waited, at most what the settings allow."""
    found = work([0, 0], [9000, 0])
    rates = PodRates(("a", "b"), np.array([[done] * 40, [7] * 40], dtype=np.int32))
    busy = PartitionWork(
        arrivals=found.arrivals,
        waiting=found.waiting,
        done=None,
        lost=found.lost,
        pod_rates=rates,
        message_seconds=None,
    )

    assert pod_rate_per_second(busy, owners(*START), [], nominal) == rate


def test_pods_that_were_never_busy_can_do_what_the_settings_say() -> None:
    """Nothing waited for them: what they did says nothing of what they can do."""
    assert pod_rate_per_second(work([0, 0], [0, 0]), owners(*START), [], 500.0) == 500.0
