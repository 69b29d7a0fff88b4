"""The order in which a StatefulSet creates, deletes and replaces its pods."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.localkube.controllers.stateful_set_steps import Replica, Steps, Wanted, next_steps


def wanted(replicas: int, **fields: Any) -> Wanted:
    """Return a spec that wants so many pods of the revision ``new``."""
    return Wanted(replicas, **{"current_revision": "new", "update_revision": "new", **fields})


def pods(*ordinals: int, **fields: Any) -> list[Replica]:
    """Return pods with these ordinals, healthy and of the revision ``new`` unless named."""
    return [Replica(ordinal, **{"revision": "new", **fields}) for ordinal in ordinals]


def test_in_order_the_next_pod_waits_for_the_one_before() -> None:
    """OrderedReady creates one pod, and the next one when that one is available."""
    assert next_steps(wanted(3), []) == Steps(create=(0,))
    assert next_steps(wanted(3), pods(0, is_available=False)) == Steps()
    assert next_steps(wanted(3), pods(0)) == Steps(create=(1,))
    assert next_steps(wanted(3), pods(0, 1, 2)) == Steps()


def test_in_parallel_all_pods_come_at_once() -> None:
    """Parallel creates every missing pod, whatever the others do."""
    steps = next_steps(wanted(4, is_parallel=True), pods(1, is_available=False))

    assert steps == Steps(create=(0, 2, 3))


def test_in_order_the_highest_leaves_alone() -> None:
    """OrderedReady deletes the highest pod, and the next one when that one is gone."""
    assert next_steps(wanted(1), pods(0, 1, 2, 3)) == Steps(delete=(3,))
    assert next_steps(wanted(1), [*pods(0, 1, 2), *pods(3, is_terminating=True)]) == Steps()
    assert next_steps(wanted(1), pods(0, 1, 2)) == Steps(delete=(2,))


def test_in_order_no_pod_leaves_while_one_below_is_missing() -> None:
    """A scale-down waits until every pod that stays is available."""
    assert next_steps(wanted(2), pods(0, 3)) == Steps(create=(1,))
    assert next_steps(wanted(2), [*pods(1, 3), *pods(0, is_available=False)]) == Steps()


def test_in_order_an_unhealthy_pod_leaves_only_as_the_first_one() -> None:
    """A surplus pod that is not ready blocks the scale-down, unless no lower one is unhealthy."""
    alone = [*pods(0, 1), *pods(2, is_available=False)]
    with_a_lower_one = [*pods(0), *pods(1, 2, is_available=False)]

    assert next_steps(wanted(1), alone) == Steps(delete=(2,))
    assert next_steps(wanted(1), with_a_lower_one) == Steps()


def test_in_parallel_the_highest_ordinals_leave_together() -> None:
    """Parallel deletes all surplus pods at once, from the highest; one that is leaving is left."""
    existing = [*pods(0, 1, 2, 3), *pods(4, is_terminating=True)]

    assert next_steps(wanted(2, is_parallel=True), existing) == Steps(delete=(3, 2))


@pytest.mark.parametrize("is_parallel", [False, True])
def test_a_pod_that_has_ended_is_removed_and_then_created_again(is_parallel: bool) -> None:
    """A failed pod must be gone before its name can be used again."""
    spec = wanted(2, is_parallel=is_parallel)
    failed = pods(1, has_ended=True, is_available=False)

    assert next_steps(spec, [*pods(0), *failed]) == Steps(delete=(1,))
    assert next_steps(spec, pods(0)) == Steps(create=(1,))


@pytest.mark.parametrize("is_parallel", [False, True])
def test_a_rolling_update_replaces_one_pod_at_a_time_from_the_highest(is_parallel: bool) -> None:
    """The next pod is replaced when the one above it has the new revision and is available."""
    spec = wanted(3, is_parallel=is_parallel, current_revision="old")

    assert next_steps(spec, pods(0, 1, 2, revision="old")) == Steps(delete=(2,))
    assert next_steps(spec, pods(0, 1, revision="old")) == Steps(create=(2,))
    started = [*pods(0, 1, revision="old"), *pods(2, is_available=False)]
    assert next_steps(spec, started) == Steps()
    assert next_steps(spec, [*pods(0, 1, revision="old"), *pods(2)]) == Steps(delete=(1,))


def test_pods_below_the_partition_keep_their_revision() -> None:
    """They are not replaced, and one that is deleted comes back with the old revision."""
    spec = wanted(3, partition=2, current_revision="old")

    assert next_steps(spec, [*pods(0, 1, revision="old"), *pods(2)]) == Steps()
    assert [spec.revision_of(ordinal) for ordinal in (0, 1, 2)] == ["old", "old", "new"]


def test_on_delete_replaces_nothing() -> None:
    """OnDelete leaves pods of the old revision; a pod that is created has the new one."""
    spec = wanted(2, partition=None, current_revision="old")

    assert next_steps(spec, pods(0, 1, revision="old")) == Steps()
    assert spec.revision_of(0) == "new"


def test_ordinals_may_start_higher() -> None:
    """With a start, the pods below it are surplus, and the partition counts from it."""
    spec = wanted(2, start=5, is_parallel=True, partition=1, current_revision="old")

    assert next_steps(spec, pods(4)) == Steps(create=(5, 6), delete=(4,))
    assert [spec.revision_of(ordinal) for ordinal in (5, 6)] == ["old", "new"]
