"""Compute small statistics over numpy arrays; NaN marks a missing value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def percentile(values: Iterable[float], percent: float) -> float | None:
    """Return the percentile with linear interpolation between ranks; None without values."""
    array = np.asarray(list(values), dtype=np.float64)
    return float(np.percentile(array, percent)) if array.size else None


def histogram(values: Iterable[float], bounds: Sequence[float]) -> list[tuple[float | None, int]]:
    """Return (upper bound, count) with upper bounds inclusive; the last row is open (None)."""
    array = np.asarray(list(values), dtype=np.float64)
    places = np.searchsorted(np.asarray(bounds, dtype=np.float64), array, side="left")
    counts = np.bincount(places, minlength=len(bounds) + 1)
    return [
        (bound, int(count)) for bound, count in zip([*bounds, None], counts.tolist(), strict=True)
    ]


def longest_without_new_minimum(at_seconds: Reals, values: Reals) -> float | None:
    """Return the longest time in which ``values`` reached no new minimum; NaN are skipped.

    None with fewer than two known values.
    """
    known = ~np.isnan(values)
    times, seen = at_seconds[known], values[known]
    if times.size < 2:
        return None
    lowest = np.minimum.accumulate(seen)
    is_new = np.concatenate([[True], lowest[1:] < lowest[:-1]])
    marks = np.concatenate([times[is_new], times[-1:]])
    return float(np.diff(marks).max())
