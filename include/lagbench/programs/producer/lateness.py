"""Count the lateness of events in bins 2 % wide, so a long stream costs no memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# 10 microseconds to 1000 s; what lies below or above falls into the first or the last bin.
_EDGES_MS = 0.01 * 1.02 ** np.arange(931)


class LatenessCounts:
    """Counts lateness in milliseconds and gives percentiles (the bin's upper edge)."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self._counts = np.zeros(len(_EDGES_MS) + 1, dtype=np.int64)
        self.count = 0
        self.max_ms = 0.0

    def add(self, lateness_ns: npt.NDArray[np.int64]) -> None:
        """Count the lateness of some events."""
        if not len(lateness_ns):
            return
        late_ms = lateness_ns / 1e6
        bins = np.searchsorted(_EDGES_MS, late_ms)
        self._counts += np.bincount(bins, minlength=len(self._counts))
        self.count += len(late_ms)
        self.max_ms = max(self.max_ms, float(late_ms.max()))

    def merge(self, other: LatenessCounts) -> None:
        """Take in what ``other`` has counted."""
        self._counts += other._counts
        self.count += other.count
        self.max_ms = max(self.max_ms, other.max_ms)

    def percentile_ms(self, percent: float) -> float | None:
        """Return the percentile, at most 2 % too high; None when nothing was counted."""
        if self.count == 0:
            return None
        wanted = max(1, int(np.ceil(self.count * percent / 100)))
        found = int(np.searchsorted(np.cumsum(self._counts), wanted))
        edge = float(_EDGES_MS[min(found, len(_EDGES_MS) - 1)])
        return min(edge, self.max_ms)
