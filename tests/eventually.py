"""Wait in a test for what other processes do: one wait for all suites."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")
# What takes 2 s on an idle machine takes 20 s beside other suites, and an unused limit is free.
WAIT_SECONDS = 180.0
_LOOK_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
# A look at a broker, a cluster or all processes may take as long as a core has: what is waited for
# needs that core.
_PAUSES_PER_LOOK = 4


def eventually(
    look: Callable[[], Seen | None], what: str, *, within_seconds: float = WAIT_SECONDS
) -> Seen:
    """Return what ``look`` gives as soon as it is true; fail with ``what`` after the limit."""
    gives_up_at = time.monotonic() + within_seconds
    while True:
        began_at = time.monotonic()
        seen = look()
        if seen:
            return seen
        now = time.monotonic()
        if now > gives_up_at:
            raise AssertionError(f"not within {within_seconds:g} s: {what}; last seen {seen!r}")
        pause = max(_LOOK_SECONDS, _PAUSES_PER_LOOK * (now - began_at))
        time.sleep(min(pause, _LONGEST_PAUSE_SECONDS))
