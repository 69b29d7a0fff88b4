"""Where the distribution of a series changes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from lagbench.core.compare.history.e_divisive import best_split


def by_definition(values: np.ndarray, at: int) -> float:
    """Return the scaled energy distance of a split, from its definition."""
    before, after = values[:at], values[at:]
    m, n = len(before), len(after)
    between = np.mean([abs(x - y) for x in before for y in after])
    within = [np.mean([abs(x - y) for x, y in combinations(part, 2)]) for part in (before, after)]
    return float(m * n / (m + n) * (2 * between - within[0] - within[1]))


def test_the_split_has_the_largest_energy_distance() -> None:
    """Against the definition, pair by pair, over all splits with four values on each side."""
    values = np.random.default_rng(3).normal(size=15)
    values[9:] += 2

    split = best_split(values)

    assert split is not None
    assert split.at == max(range(4, 12), key=lambda at: by_definition(values, at))


def test_a_shift_is_found_where_it_happened() -> None:
    """Four standard deviations after 20 values: index 20, and hardly by chance."""
    values = np.random.default_rng(1).normal(size=26)
    values[20:] += 4

    split = best_split(values)

    assert split is not None
    assert split.at == 20
    assert split.p <= 0.002


def test_noise_is_no_change() -> None:
    """At 5 % at most 5 % of noise series (and three errors of 200) have one, the split chosen."""
    source = np.random.default_rng(4)
    splits = [best_split(source.normal(size=16)) for _ in range(200)]

    found = np.mean([split is not None and split.p <= 0.05 for split in splits])

    assert found <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


def test_the_same_series_gives_the_same_answer() -> None:
    """The permutations are seeded."""
    values = np.random.default_rng(9).normal(size=30)

    assert best_split(values) == best_split(values.copy())


@pytest.mark.parametrize("size", [0, 1, 7])
def test_fewer_than_four_on_a_side_are_not_split(size: int) -> None:
    """Eight values are the fewest."""
    assert best_split(np.arange(size, dtype=float)) is None
    assert best_split(np.arange(8, dtype=float)) is not None


def test_equal_values_do_not_change() -> None:
    """Every permutation is as good."""
    split = best_split(np.ones(10))

    assert split is not None
    assert split.p == 1


def test_two_values_can_be_split_off_if_that_is_allowed() -> None:
    """For a suspicion, the end of the series may be shorter."""
    values = np.random.default_rng(2).normal(size=40)
    values[38:] += 9

    split = best_split(values, fewest_after=2)

    assert split is not None
    assert split.at == 38
    assert split.p < 0.01
