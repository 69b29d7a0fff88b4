"""The partitions of the topic over a run, and the lag in those that were added."""

from __future__ import annotations

import numpy as np

from lagbench.core.measures.evidence.actions import HIDES, Hidden, PlayedAction
from lagbench.core.measures.evidence.in_force import TopicPartitions, topic_partitions
from lagbench.core.measures.evidence.series import lag_series
from lagbench.core.scenario.actions import GrowPartitions, KillPod

NS = 1_000_000_000
PLANNED = (
    KillPod(kind="kill_pod", at_seconds=1),
    GrowPartitions(kind="grow_partitions", at_seconds=10, partitions=4),
    GrowPartitions(kind="grow_partitions", at_seconds=20, partitions=8),
)


def played(problem: str = "") -> tuple[PlayedAction, ...]:
    """Return the actions with their stamps; the last growth may have failed."""
    return (
        PlayedAction(number=0, kind="kill_pod", started_at=NS, ended_at=2 * NS),
        PlayedAction(number=1, kind="grow_partitions", started_at=10 * NS, ended_at=11 * NS),
        PlayedAction(
            number=2, kind="grow_partitions", started_at=20 * NS, ended_at=21 * NS, problem=problem
        ),
    )


def test_new_partitions_count_from_the_end_of_their_action() -> None:
    """Until it has ended, they may be missing."""
    found = topic_partitions(2, PLANNED, played())

    assert [found.at(second * NS) for second in (0, 10, 11, 20, 21)] == [2, 2, 4, 4, 8]
    assert (found.at(None), found.last) == (2, 8)


def test_a_growth_that_was_not_played_adds_none() -> None:
    """The partitions stay those before it."""
    assert topic_partitions(2, PLANNED, played("failed")).last == 4
    assert topic_partitions(2, (), ()) == TopicPartitions(2)


def test_all_of_an_added_partition_waits_until_the_first_commit() -> None:
    """It begins at 0 and the group reads it from there; one of the start may hold any lag."""
    at = [NS, NS, 2 * NS, 2 * NS, 2 * NS, 3 * NS, 3 * NS, 3 * NS]
    partition = [0, 1, 0, 1, 2, 0, 1, 2]
    ends = [10, 10, 20, 20, 7, 30, 30, 9]
    commits = [5, None, 15, 20, None, 30, 30, 4]

    found = lag_series(at, partition, ends, commits, first_partitions=2)

    assert found.by_partition[:, 2].tolist() == [0.0, 7.0, 5.0]
    assert np.isnan(found.total[0])
    assert found.total[1:].tolist() == [12.0, 5.0]


def test_a_growth_hides_only_a_rebalance_in_which_nobody_joined_or_left() -> None:
    """Its targets are no pods, so a pod that joined or died in its window is not excused."""
    until_at = round((11 + HIDES["grow_partitions"].recovery_seconds) * NS)
    hidden = Hidden(
        [
            PlayedAction(
                number=0,
                kind="grow_partitions",
                targets=("events",),
                started_at=10 * NS,
                ended_at=11 * NS,
                hidden_until_at=until_at,
            )
        ]
    )

    assert hidden.by("rebalance", 15 * NS) is not None
    assert hidden.by("rebalance", 15 * NS, pods=["consumer-1"]) is None
    assert hidden.by("rebalance", until_at + 1) is None
    assert hidden.by("members", 15 * NS, count=1) is None
    assert hidden.by("backlog", 15 * NS) is None
