"""Find where the distribution of a series changes: E-divisive with a seeded permutation test.

The statistic is the energy distance between the values before and after a split (Matteson and
James 2014). It uses distances between values alone, so a change of the mean and of the spread both
raise it. Its p-value comes from permutations of the same values with a fixed seed: the same series
gives the same answer. The maximum over all splits is compared with the maximum of each permutation,
so the choice of the split is paid for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lagbench.core.measures import Ints, Reals

FEWEST_POINTS = 4
"""Fewer values before or after a split show no distribution."""
PERMUTATIONS = 1999
_SEED = 20141
_CELLS = 2_000_000
_ENOUGH = 40
"""So many permutations beyond the observed value settle that p is high."""


@dataclass(frozen=True, slots=True)
class Split:
    """The best split: the index of the first value after it, and the p-value of no change."""

    at: int
    p: float


def best_split(values: Reals, *, fewest_after: int = FEWEST_POINTS) -> Split | None:
    """Return the best split of the values in order; None: there are too few.

    :param values: shape (n,), none of them NaN.
    :param fewest_after: least number of values after the split (2 or more); at least
        ``FEWEST_POINTS`` are before it.
    """
    size = values.size
    places = np.arange(FEWEST_POINTS, size - fewest_after + 1)
    if not places.size:
        return None
    distances = np.abs(values[:, None] - values[None, :])
    observed = _statistic(distances[None], places)[0]
    best = int(np.argmax(observed))
    return Split(int(places[best]), _p_value(distances, places, float(observed[best])))


def _p_value(distances: Reals, places: Ints, observed: float) -> float:
    """Return the share of permutations whose best split is at least as good."""
    size = len(distances)
    source = np.random.default_rng(_SEED)
    reached = observed - 1e-9 * abs(observed)
    done = beyond = 0
    while done < PERMUTATIONS and beyond < _ENOUGH:
        count = min(max(1, _CELLS // size**2), PERMUTATIONS - done, 200)
        orders = source.permuted(np.tile(np.arange(size), (count, 1)), axis=1)
        permuted = distances[orders[:, :, None], orders[:, None, :]]
        beyond += int((_statistic(permuted, places).max(axis=1) >= reached).sum())
        done += count
    return (1 + beyond) / (1 + done)


def _statistic(distances: Reals, places: Ints) -> Reals:
    """Return the scaled energy distance of each split of each series.

    :param distances: shape (series, n, n).
    :param places: shape (splits,): number of values before each split.
    :returns: shape (series, splits).
    """
    size = distances.shape[-1]
    sums = distances.cumsum(axis=1).cumsum(axis=2)
    before = sums[:, places - 1, places - 1]
    to_all = sums[:, places - 1, size - 1]
    between = to_all - before
    after = sums[:, -1, -1, None] - before - 2 * between
    m, n = places.astype(np.float64), (size - places).astype(np.float64)
    energy = 2 * between / (m * n) - before / (m * (m - 1)) - after / (n * (n - 1))
    found: Reals = m * n / (m + n) * energy
    return found
