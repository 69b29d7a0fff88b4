"""The measured part of a run, with what the rules on doubts share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replicas import ReplicaChange


@dataclass(frozen=True, slots=True)
class Window:
    """Instants in unix ns; ``changes`` are the changes of the desired replicas in it."""

    from_at: int
    until_at: int
    changes: Sequence[ReplicaChange]

    def holds(self, at: int) -> bool:
        """Return whether ``at`` is measured."""
        return self.from_at <= at <= self.until_at

    def when(self, at: int) -> str:
        """Return an instant in seconds after the stream's start."""
        return f"at {(at - self.from_at) / NANOSECONDS:+.1f} s"
