"""One group and topic, sampled at one interval: its window, and who looks at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lagbench.core.kubernetes import NS_PER_SECOND
from lagbench.core.lag_scaler import GroupTopic, GroupWindow

if TYPE_CHECKING:
    from lagbench.programs.lag_scaler.watched import Watched


class FeedKey(NamedTuple):
    """The properties that objects of one cluster must share to use the same samples and window."""

    group_topic: GroupTopic
    interval_seconds: float


@dataclass(slots=True, eq=False)
class Feed:
    """The window is touched by the sampling thread only, which sets ``newest_at_ns`` after it.

    ``due_ns``: on the monotonic clock; a new feed is due at once. ``window_bytes``: what the window
    takes when it is full, 0 before the first sample.
    """

    key: FeedKey
    window: GroupWindow
    newest_at_ns: int | None = None
    due_ns: int = 0
    window_bytes: int = 0
    watchers: set[Watched] = field(default_factory=set)

    def plan_next(self, now_ns: int) -> None:
        """Set the next sample to the next multiple of the interval.

        All feeds with equal intervals, and every second one of half the interval, are then due
        together and share a batch.
        """
        interval_ns = round(self.key.interval_seconds * NS_PER_SECOND)
        self.due_ns = (now_ns // interval_ns + 1) * interval_ns
