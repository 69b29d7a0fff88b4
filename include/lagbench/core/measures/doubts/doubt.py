"""A doubt: why a part of the evidence does not show what the run's policy did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.measures.replica_steps import ReplicaChange

Part = Literal["policy", "lag", "replicas", "group", "work", "latency", "messages", "owners"]
"""``policy``: who scaled, by which rules. ``lag``: offsets. ``replicas``: the workload's.
``group``: its members and the owners of partitions. ``work``: how much was done when. ``latency``:
the time lag. ``messages``: what became of each. ``owners``: who did each, and in which order."""
EVERYTHING: tuple[Part, ...] = get_args(Part)


class Doubt(MeasureModel):
    """A finding that leaves each SLO on one of ``about`` undetermined, whether it held or not."""

    code: str  # of its rule
    about: tuple[Part, ...]
    text: str  # one sentence with the instant and the two values


@dataclass(frozen=True, slots=True)
class Window:
    """The measured part of a run: ``changes`` are those of the desired replicas in it."""

    from_at: int
    until_at: int
    changes: Sequence[ReplicaChange]

    def holds(self, at: int) -> bool:
        """Return whether ``at`` is measured."""
        return self.from_at <= at <= self.until_at

    def second(self, at: int) -> str:
        """Return an instant in seconds after the stream's start."""
        return f"{(at - self.from_at) / NANOSECONDS:+.1f} s"

    def when(self, at: int) -> str:
        """Return it with its preposition."""
        return f"at {self.second(at)}"
