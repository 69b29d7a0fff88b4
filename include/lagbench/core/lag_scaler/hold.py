"""Stabilise the metric: it rises to the lowest and falls to the highest of its recent values.

With monotonic queues one sample has a constant cost on average, whatever the window's length.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

Queue = deque[tuple[int, float]]


@dataclass(slots=True)
class Hold:
    """Values of the last ``up_ns`` must all be high; one of the last ``down_ns`` is enough.

    The served value is the highest, over the last ``down_ns``, of the lowest over the ``up_ns``
    before it, both ends included. The same two rules hold activity.
    """

    up_ns: int
    down_ns: int
    lowest: Queue = field(default_factory=deque)
    highest: Queue = field(default_factory=deque)
    inactive_at_ns: int | None = None
    active_at_ns: int | None = None
    served: float = 0.0
    is_active: bool = False

    def clear(self) -> None:
        """Forget all values: the clock was set back, and their instants lie in the future."""
        self.lowest.clear()
        self.highest.clear()
        self.inactive_at_ns = self.active_at_ns = None

    def push(self, at_ns: int, value: float, *, is_active: bool) -> None:
        """Add one sample's value; this updates ``served`` and ``is_active``."""
        while self.lowest and self.lowest[-1][1] >= value:
            self.lowest.pop()
        self.lowest.append((at_ns, value))
        while self.lowest[0][0] < at_ns - self.up_ns:
            self.lowest.popleft()
        raised = self.lowest[0][1]
        while self.highest and self.highest[-1][1] <= raised:
            self.highest.pop()
        self.highest.append((at_ns, raised))
        while self.highest[0][0] < at_ns - self.down_ns:
            self.highest.popleft()
        self.served = self.highest[0][1]
        self._push_activity(at_ns, is_active=is_active)

    def _push_activity(self, at_ns: int, *, is_active: bool) -> None:
        if not is_active:
            self.inactive_at_ns = at_ns
        last_inactive = self.inactive_at_ns
        if last_inactive is None or last_inactive < at_ns - self.up_ns:
            self.active_at_ns = at_ns
        last_active = self.active_at_ns
        self.is_active = last_active is not None and last_active >= at_ns - self.down_ns
