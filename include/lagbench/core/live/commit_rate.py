"""Follow the rate of a group that reports nothing, by its committed offsets."""

from __future__ import annotations

from collections import deque

from lagbench.core.measures import NANOSECONDS
from lagbench.core.telemetry import LagSample

WINDOW_SECONDS = 10.0
"""Two automatic commits of the clients, which commit every 5 s by default."""
FEWEST_SECONDS = 5.0


class CommitRate:
    """Messages per second that the group has committed in the last 10 s.

    Commits move in steps, so a shorter time would show 0 and peaks by turns.
    """

    def __init__(self) -> None:
        """Start without a sample."""
        self._samples: deque[tuple[int, dict[int, int | None]]] = deque()

    def take(self, sample: LagSample) -> None:
        """Take a sample of the offsets; one that is not newer than the last does not count."""
        if not sample.partitions or (self._samples and sample.at <= self._samples[-1][0]):
            return
        committed = {number: commit for number, _, commit in sample.partitions}
        self._samples.append((sample.at, committed))
        begin = sample.at - WINDOW_SECONDS * NANOSECONDS
        while len(self._samples) > 1 and self._samples[1][0] <= begin:
            self._samples.popleft()

    @property
    def per_second(self) -> float | None:
        """Return the rate, never below 0; None: less than 5 s are known, or nothing is committed.

        A partition begins at 0, because the topic is the run's own.
        """
        if not self._samples:
            return None
        (first_at, first), (last_at, last) = self._samples[0], self._samples[-1]
        seconds = (last_at - first_at) / NANOSECONDS
        if seconds < FEWEST_SECONDS or all(commit is None for commit in last.values()):
            return None
        done = sum((commit or 0) - (first.get(number) or 0) for number, commit in last.items())
        return max(0.0, done / seconds)
