"""Name who did the work where the pod is not known, and date the stamps of who did it."""

from __future__ import annotations

from collections.abc import Iterable

from lagbench.core.clocks import ONE_CLOCK, Clock, ClockSet

OWNER_PREFIX = "output-"
"""Begins the name that stands for the pods of an output topic's partition."""


def clock_of(owner: str, clocks: ClockSet) -> Clock | None:
    """Return the clock that stamped an owner's work; None: it is not bounded.

    A partition of the output topic has the stamps of the broker: all of them are of one clock, and
    only compared with each other.
    """
    return (ONE_CLOCK if owner.startswith(OWNER_PREFIX) else clocks).of_pod(owner)


def most_error_ns(owners: Iterable[str], clocks: ClockSet) -> int:
    """Return the largest error between two of their stamps, as far as they are bounded."""
    bounded = [clock for owner in owners if (clock := clock_of(owner, clocks)) is not None]
    return 2 * max((clock.error_ns for clock in bounded), default=0)
