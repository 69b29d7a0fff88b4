"""Determine how many partitions the events topic had at an instant: actions may add some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lagbench.core.measures.evidence.actions import PlayedAction
from lagbench.core.scenario import ActionBase, GrowPartitions


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """``first`` at the stream's start, then the counts of ``grown`` (unix ns, count), ascending."""

    first: int
    grown: tuple[tuple[int, int], ...] = ()

    def at(self, instant: int | None) -> int:
        """Return the partitions at ``instant`` (unix ns); None: at the start."""
        past = [count for at, count in self.grown if instant is not None and at <= instant]
        return past[-1] if past else self.first

    @property
    def most(self) -> int:
        """Return the partitions at the end."""
        return self.grown[-1][1] if self.grown else self.first


def topic_partitions(
    first: int, planned: Sequence[ActionBase], played: Sequence[PlayedAction]
) -> TopicPartitions:
    """Return the partitions over the run; a growth that was not played is none."""
    grown = []
    for action, of_run in zip(planned, played, strict=True):
        if of_run.problem or of_run.ended_at is None:
            continue
        if isinstance(action, GrowPartitions):
            grown.append((of_run.ended_at, action.partitions))
    return TopicPartitions(first, tuple(sorted(grown)))
