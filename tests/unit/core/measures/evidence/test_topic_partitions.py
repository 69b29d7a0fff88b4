"""The partitions of the topic at an instant of a run."""

from __future__ import annotations

from lagbench.core.measures.evidence.actions import PlayedAction
from lagbench.core.measures.evidence.topic_partitions import topic_partitions
from lagbench.core.scenario import GrowPartitions, KillPod

PLANNED = (
    KillPod(kind="kill_pod", at_seconds=1),
    GrowPartitions(kind="grow_partitions", at_seconds=5, partitions=24),
)


def played(problem: str = "") -> tuple[PlayedAction, ...]:
    """Return both actions; the growth ended at 6."""
    return (
        PlayedAction(number=0, kind="kill_pod", started_at=1, ended_at=1),
        PlayedAction(number=1, kind="grow_partitions", started_at=5, ended_at=6, problem=problem),
    )


def test_a_growth_counts_from_its_end_on() -> None:
    """All new partitions have a leader then."""
    found = topic_partitions(12, PLANNED, played())

    assert [found.at(instant) for instant in (None, 0, 5, 6, 9)] == [12, 12, 12, 24, 24]
    assert found.most == 24


def test_a_growth_that_was_not_played_is_none() -> None:
    """The topic has the partitions that it had."""
    assert topic_partitions(12, PLANNED, played("failed: no broker")).most == 12
