"""Map instants to the downstream's own time, which passes slowly while the downstream is slow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lagbench.core.scenario.downstream_pace import DownstreamPace

Instants = npt.NDArray[np.int64]


class DownstreamClock:
    """Maps instants (unix nanoseconds) to the downstream's own time and back.

    The downstream's time runs at the pace of the downstream, so that every write costs the same
    in it. Both are equal until the downstream is slow for the first time.
    """

    def __init__(self, pace: DownstreamPace) -> None:
        """Begin without knowing the stream's start: nothing is slow before that is known."""
        self._pace = pace
        self._stream_started_at: int | None = None

    @property
    def needs_stream_start(self) -> bool:
        """True: the downstream is slow at some time, and the stream's start is not known."""
        return self._stream_started_at is None and not self._pace.is_even

    def stream_started(self, at: int) -> None:
        """Take the start of the stream; call it before the first write is planned."""
        self._stream_started_at = at

    def work(self, instants: Instants) -> Instants:
        """Return the downstream's time at each instant."""
        started_at = self._stream_started_at
        if started_at is None or self._pace.is_even:
            return instants
        return self._pace.work_ns(instants - started_at) + started_at

    def wall(self, works: Instants) -> Instants:
        """Return the instant of each point of the downstream's time."""
        started_at = self._stream_started_at
        if started_at is None or self._pace.is_even:
            return works
        return self._pace.wall_ns(works - started_at) + started_at

    def work_at(self, instant: int) -> int:
        """Return the downstream's time at one instant."""
        return int(self.work(np.array([instant], dtype=np.int64))[0])

    def wall_at(self, work: int) -> int:
        """Return the instant of one point of the downstream's time."""
        return int(self.wall(np.array([work], dtype=np.int64))[0])
