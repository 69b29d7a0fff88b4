"""Find where a log was cut, and count the growth of its offsets across the cut.

An end offset below the one before it means that records were cut off: the topic was recreated, or
an unclean election truncated it. The load between those two readings is not known.
"""

from __future__ import annotations

import numpy as np

from lagbench.core.measures.evidence.series import LagSeries
from lagbench.core.measures.statistics import Ints, Reals


def cuts_until(ends: Reals) -> Ints:
    """Return how often a partition's log was cut, up to and with each reading; NaN is unknown."""
    known = ~np.isnan(ends)
    cuts = np.zeros(ends.size, dtype=np.int64)
    cuts[known] = np.diff(ends[known], prepend=ends[known][:1]) < 0
    total: Ints = np.cumsum(cuts)
    return total


def growth(offsets: Reals, cuts: Ints) -> Reals:
    """Return by how much known offsets of a partition grew since the first of them.

    An offset that is set back grows again when it is ahead of its highest. ``cuts`` are those until
    each offset: a cut log has new offsets, which grow from the first of them on.
    """
    steps = np.zeros_like(offsets)
    for number in np.unique(cuts):
        part = offsets[cuts == number]
        steps[cuts == number] = np.diff(np.maximum.accumulate(part), prepend=part[:1])
    total: Reals = np.cumsum(steps)
    return total


def first_cuts(lag: LagSeries) -> dict[int, int]:
    """Return the instant of the first cut of each partition whose log was cut."""
    found: dict[int, int] = {}
    for place, partition in enumerate(lag.partitions.tolist()):
        rows = np.flatnonzero(cuts_until(lag.end_offsets[:, place]))
        if rows.size:
            found[partition] = int(lag.at[rows[0]])
    return found
