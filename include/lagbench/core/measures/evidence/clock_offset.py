"""How far another clock is ahead of ours, from answers that carry only whole seconds.

An answer that was asked for at ``sent`` and had come at ``received`` and says second D proves that
the other clock stood in [D, D + 1 s) at some instant between the two: its offset lies in
[D - received, D + 1 s - sent]. Answers narrow each other down where the bounds overlap. A probe
that meets the other clock at the turn of a second halves what is left, so ten answers bring a
second down to the time that one answer takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from lagbench.core.measures.model import NANOSECONDS


@dataclass(frozen=True, slots=True)
class OffsetBound:
    """The other clock minus ours lies in [low_ns, high_ns]."""

    low_ns: int
    high_ns: int

    @property
    def width_ns(self) -> int:
        """How much is not known."""
        return self.high_ns - self.low_ns

    @property
    def middle_ns(self) -> int:
        """The offset that is wrong by half the width at most."""
        return (self.low_ns + self.high_ns) // 2

    def narrowed_by(self, other: OffsetBound) -> OffsetBound | None:
        """Return what both allow; None when they contradict each other: the clocks drifted."""
        low, high = max(self.low_ns, other.low_ns), min(self.high_ns, other.high_ns)
        return OffsetBound(low, high) if low <= high else None

    def joined_with(self, other: OffsetBound) -> OffsetBound:
        """Return the bound that holds for both."""
        return OffsetBound(min(self.low_ns, other.low_ns), max(self.high_ns, other.high_ns))


def answer_bound(*, second_at: int, sent_at: int, received_at: int) -> OffsetBound:
    """Return what one answer proves; ``second_at`` is its whole second in unix nanoseconds."""
    return OffsetBound(second_at - received_at, second_at + NANOSECONDS - sent_at)


def probe_at(bound: OffsetBound | None, not_before_at: int, *, lead_ns: int) -> int:
    """Return when to ask next, so as to arrive when the other clock turns a second.

    That is, if its offset is the bound's middle; a question takes ``lead_ns`` to get there.
    """
    if bound is None:
        return not_before_at
    arrives_at = not_before_at + lead_ns
    return not_before_at + -(arrives_at + bound.middle_ns) % NANOSECONDS


class RunningBound:
    """The bound that all answers since ``since_at`` allow; a contradiction starts it anew."""

    def __init__(self) -> None:
        """Know nothing."""
        self.bound: OffsetBound | None = None
        self.since_at = 0
        self.answers = 0

    def take(self, found: OffsetBound, *, at: int) -> OffsetBound:
        """Take an answer's bound and return what is known now."""
        narrowed = None if self.bound is None else self.bound.narrowed_by(found)
        if narrowed is None:
            self.since_at, self.answers, narrowed = at, 0, found
        self.bound = narrowed
        self.answers += 1
        return narrowed
