"""Determine how many partitions the topic had at an instant: actions may have added some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lagbench.core.measures.evidence.actions import PlayedAction
from lagbench.core.scenario import ActionBase, GrowPartitions


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """``first`` partitions, then each growth as (instant, partitions), ascending."""

    first: int
    growths: tuple[tuple[int, int], ...] = ()

    def at(self, instant: int | None) -> int:
        """Return the partitions at ``instant`` (unix ns); None: at the start."""
        past = [count for at, count in self.growths if instant is not None and at <= instant]
        return past[-1] if past else self.first

    @property
    def last(self) -> int:
        """Return the partitions at the end."""
        return self.growths[-1][1] if self.growths else self.first


def topic_partitions(
    first: int, planned: Sequence[ActionBase], played: Sequence[PlayedAction]
) -> TopicPartitions:
    """Return the partitions over the run: new ones count from the end of their action."""
    growths = []
    for action, of_run in zip(planned, played, strict=True):
        is_played = of_run.ended_at is not None and not of_run.problem
        if isinstance(action, GrowPartitions) and is_played:
            growths.append((of_run.ended_at or 0, action.partitions))
    return TopicPartitions(first, tuple(sorted(growths)))
