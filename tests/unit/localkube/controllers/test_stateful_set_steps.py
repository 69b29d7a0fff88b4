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


def sick(*ordinals: int, **fields: Any) -> list[Replica]:
    """Return pods that are not available."""
    return pods(*ordinals, is_available=False, **fields)


def old(*ordinals: int) -> list[Replica]:
    """Return pods of the revision before."""
    return pods(*ordinals, revision="old")


@pytest.mark.parametrize(
    ("replicas", "existing", "steps"),
    [
        (3, [], Steps(create=(0,))),  # the next pod waits for the one before
        (3, sick(0), Steps()),
        (3, pods(0), Steps(create=(1,))),
        (3, pods(0, 1, 2), Steps()),
        (1, pods(0, 1, 2, 3), Steps(delete=(3,))),  # the highest leaves alone
        (1, [*pods(0, 1, 2), *pods(3, is_terminating=True)], Steps()),
        (1, pods(0, 1, 2), Steps(delete=(2,))),
        (2, pods(0, 3), Steps(create=(1,))),  # none leaves while one that stays is missing
        (2, [*pods(1, 3), *sick(0)], Steps()),
        (1, [*pods(0, 1), *sick(2)], Steps(delete=(2,))),  # a sick one leaves only as the first
        (1, [*pods(0), *sick(1, 2)], Steps()),
    ],
)
def test_in_order(replicas: int, existing: list[Replica], steps: Steps) -> None:
    """OrderedReady takes one step at a time, and only while the pods below are available."""
    assert next_steps(wanted(replicas), existing) == steps


@pytest.mark.parametrize(
    ("replicas", "existing", "steps"),
    [
        (4, sick(1), Steps(create=(0, 2, 3))),
        (2, [*pods(0, 1, 2, 3), *pods(4, is_terminating=True)], Steps(delete=(3, 2))),
    ],
)
def test_in_parallel(replicas: int, existing: list[Replica], steps: Steps) -> None:
    """Parallel creates or deletes all at once, the highest first; one that leaves is left."""
    assert next_steps(wanted(replicas, is_parallel=True), existing) == steps


@pytest.mark.parametrize("is_parallel", [False, True])
def test_a_pod_that_has_ended_is_removed_and_then_created_again(is_parallel: bool) -> None:
    """A failed pod must be gone before its name can be used again."""
    spec = wanted(2, is_parallel=is_parallel)

    assert next_steps(spec, [*pods(0), *sick(1, has_ended=True)]) == Steps(delete=(1,))
    assert next_steps(spec, pods(0)) == Steps(create=(1,))


@pytest.mark.parametrize("is_parallel", [False, True])
def test_a_rolling_update_replaces_one_pod_at_a_time_from_the_highest(is_parallel: bool) -> None:
    """The next pod is replaced when the one above it has the new revision and is available."""
    spec = wanted(3, is_parallel=is_parallel, current_revision="old")

    assert next_steps(spec, old(0, 1, 2)) == Steps(delete=(2,))
    assert next_steps(spec, old(0, 1)) == Steps(create=(2,))
    assert next_steps(spec, [*old(0, 1), *sick(2)]) == Steps()
    assert next_steps(spec, [*old(0, 1), *pods(2)]) == Steps(delete=(1,))


@pytest.mark.parametrize(
    ("fields", "existing", "steps", "revisions"),
    [
        pytest.param({"partition": 2}, [*old(0, 1), *pods(2)], Steps(), "old old new", id="below"),
        pytest.param({"partition": None}, old(0, 1, 2), Steps(), "new new new", id="on-delete"),
        pytest.param(
            {"partition": 1, "start": 5, "is_parallel": True},
            pods(4),
            Steps(create=(5, 6, 7), delete=(4,)),
            "old new new",
            id="start",
        ),
    ],
)
def test_which_revision_a_pod_gets(
    fields: dict[str, Any], existing: list[Replica], steps: Steps, revisions: str
) -> None:
    """Below the partition the old one; OnDelete replaces none; both count from the start."""
    spec = wanted(3, current_revision="old", **fields)
    first = fields.get("start", 0)

    assert next_steps(spec, existing) == steps
    assert [spec.revision_of(first + number) for number in range(3)] == revisions.split()
