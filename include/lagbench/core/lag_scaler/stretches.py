"""Track since when each value has been at or above each threshold, sample by sample."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lagbench.core.lag_scaler.offset_history import Instants

Values = npt.NDArray[np.int64]
# A value that is below the threshold now has no stretch.
NO_STRETCH = np.iinfo(np.int64).max


class Stretches:
    """``started_at`` [threshold, value]: the first sample of the trailing stretch, unix ns.

    All thresholds over the same values are kept in one array: a sample costs a few vector
    operations, whatever the number of objects and however long their windows.
    """

    def __init__(self, width: int) -> None:
        """Start without a threshold, over ``width`` values."""
        self.thresholds: Values = np.empty(0, dtype=np.int64)
        self.started_at: Instants = np.empty((0, width), dtype=np.int64)
        self._shape_up()

    def add_row(self, threshold: int, started_at: Instants) -> None:
        """Add a threshold whose stretches began at ``started_at``."""
        self.thresholds = np.append(self.thresholds, np.int64(threshold))
        self.started_at = np.vstack([self.started_at, started_at[None, :]])
        self._shape_up()

    def drop_row(self, row: int) -> None:
        """Drop a threshold; later rows move up."""
        self.thresholds = np.delete(self.thresholds, row)
        self.started_at = np.delete(self.started_at, row, axis=0)
        self._shape_up()

    def advance(self, at_ns: int, values: Values, *, is_continuous: bool) -> None:
        """Add the values of a new sample; a gap before it ends every stretch."""
        is_below = values < self._limits
        is_all_below = np.count_nonzero(is_below) == is_below.size
        if is_all_below or not is_continuous:
            self.started_at.fill(NO_STRETCH)
        if is_all_below:
            return
        np.minimum(self.started_at, at_ns, out=self.started_at)
        self.started_at[is_below] = NO_STRETCH

    def select(self, known: npt.NDArray[np.intp], place: npt.NDArray[np.intp], width: int) -> None:
        """Rearrange the columns: column ``known[i]`` is the old ``place[i]``, others are new."""
        moved = np.full((self.thresholds.size, width), NO_STRETCH, dtype=np.int64)
        moved[:, known] = self.started_at[:, place]
        self.started_at = moved
        self._shape_up()

    def oldest(self) -> tuple[list[int], list[int]]:
        """Return for each threshold (start of its oldest stretch, the column of it)."""
        if not self.started_at.size:
            return [], []
        column = self.started_at.argmin(axis=1)
        # One flat look-up: an index of rows and columns takes four times as long.
        start = self.started_at.take(self._row_begins + column)
        return start.tolist(), column.tolist()

    def _shape_up(self) -> None:
        """Derive the arrays that every sample needs from the thresholds and the width."""
        rows, width = self.started_at.shape
        self._limits = self.thresholds[:, None]
        self._row_begins = np.arange(rows) * width


def trailing_starts(times: Instants, values: Values, threshold: int, max_gap_ns: int) -> Instants:
    """Return since when each column of ``values`` [sample, column] has reached ``threshold``.

    Only the stretch that ends with the last row counts, at most back to the last gap.
    """
    gaps = np.flatnonzero(np.diff(times) > max_gap_ns)
    first = int(gaps[-1]) + 1 if gaps.size else 0
    is_below = values[first:] < threshold
    rows = len(is_below)
    # Rows after the last one below; argmax finds it from the end.
    length = np.where(is_below.any(axis=0), is_below[::-1].argmax(axis=0), rows)
    start = times[np.minimum(first + rows - length, times.size - 1)]
    return np.where(length == 0, NO_STRETCH, start)
