"""Bound the offset of another clock from answers that carry only whole seconds.

An answer that was requested at ``sent``, was received at ``received`` and carries second D proves
that the other clock showed [D, D + 1 s) at some instant between the two: its offset lies in
[D - received, D + 1 s - sent]. Overlapping bounds of several answers narrow each other. A probe
that arrives when the other clock's second changes halves the remaining width, so ten answers reduce
one second to the time that one answer takes.
"""

from __future__ import annotations

from lagbench.core.clocks import OffsetBound
from lagbench.core.measures.model import NANOSECONDS


def answer_bound(*, second_at: int, sent_at: int, received_at: int) -> OffsetBound:
    """Return the bound from one answer; ``second_at`` is its whole second in unix nanoseconds."""
    return OffsetBound(second_at - received_at, second_at + NANOSECONDS - sent_at)


def probe_at(bound: OffsetBound | None, not_before_at: int, *, lead_ns: int) -> int:
    """Return when to send the next probe, to arrive when the other clock's second changes.

    This assumes that its offset is the bound's middle and that a probe takes ``lead_ns`` to arrive.
    """
    if bound is None:
        return not_before_at
    arrives_at = not_before_at + lead_ns
    return not_before_at + -(arrives_at + bound.middle_ns) % NANOSECONDS


class RunningBound:
    """The bound from all answers since ``since_at``; a contradiction restarts it."""

    def __init__(self) -> None:
        """Start without a bound."""
        self.bound: OffsetBound | None = None
        self.since_at = 0
        self.answers = 0

    def take(self, found: OffsetBound, *, at: int) -> OffsetBound:
        """Add an answer's bound and return the bound so far."""
        narrowed = None if self.bound is None else self.bound.narrowed_by(found)
        if narrowed is None:
            self.since_at, self.answers, narrowed = at, 0, found
        self.bound = narrowed
        self.answers += 1
        return narrowed
