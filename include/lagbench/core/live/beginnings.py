"""When a watched state begins: what one event is, and when the next may come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Beginnings:
    """When a condition has begun: it has held for a time, and had ended since the event before.

    Instants are unix seconds. A failed reading (None) breaks a hold, and ends nothing.
    """

    hold_seconds: float
    rearm_seconds: float
    least_seconds: float
    is_armed: bool = True
    fired_at: float | None = None
    since: float | None = None
    """From when on the condition holds; if an event has come of it, from when on it does not."""

    def has_begun(self, *, is_met: bool | None, now: float) -> bool:
        """Return whether this reading is an event."""
        if is_met is not self.is_armed:
            self.since = None
            return False
        self.since = now if self.since is None else self.since
        lasted = now - self.since
        if not self.is_armed:
            if lasted >= self.rearm_seconds:
                self.is_armed, self.since = True, None
            return False
        is_far = self.fired_at is None or now - self.fired_at >= self.least_seconds
        if lasted < self.hold_seconds or not is_far:
            return False
        self.is_armed, self.fired_at, self.since = False, now, None
        return True
