"""How far two runs of one cell differ by chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.compare.noise_floor import MeasureNoise, half_width, measure_noise
from lagbench.core.compare.pairs import Pair
from lagbench.core.measures.measures import Measures

CALM = quick_spike_measures()


def run(reaction: float | None) -> Measures:
    """Return a run with this reaction."""
    part = CALM.reaction.model_copy(update={"assigned_seconds": reaction})
    return CALM.model_copy(update={"reaction": part})


def noise(differences: Sequence[float | None]) -> MeasureNoise | None:
    """Return the noise of the reaction over A/A pairs with these differences."""
    pairs = [Pair(run(20), run(None if d is None else 20 + d)) for d in differences]
    return next((each for each in measure_noise(pairs) if each.name == "reaction_seconds"), None)


def test_it_is_t_times_the_root_mean_square() -> None:
    """Eight differences of 1 s: t(8) = 2.306, because the mean is known to be zero."""
    found = noise([1, -1] * 4)

    assert found is not None
    assert (found.half_width, found.n) == (pytest.approx(2.306, abs=1e-3), 8)


def test_rare_large_differences_lie_inside() -> None:
    """One sync of 15 s missed in eight: the root mean square alone would give 12.2 s."""
    found = noise([0] * 7 + [15])

    assert found is not None
    assert found.half_width == 15


def test_the_next_difference_lies_inside_with_95_percent() -> None:
    """2,000 times eight normal differences, and a ninth."""
    source = np.random.default_rng(8)
    inside = 0
    for _ in range(2000):
        drawn = source.normal(size=9)
        inside += abs(drawn[8]) <= half_width(drawn[:8].tolist())

    assert inside / 2000 == pytest.approx(0.955, abs=0.015)


def test_missing_values_are_left_out_and_five_are_too_few() -> None:
    """Six pairs have a floor; five have none, which is not a floor of zero."""
    six = noise([1, 1, None, 1, 1, 1, 1])

    assert six is not None
    assert six.n == 6
    assert noise([1, 1, None, 1, 1, 1]) is None


def test_counts_by_identity_have_no_noise() -> None:
    """A lost message is a failure, whatever the noise."""
    names = {each.name for each in measure_noise([Pair(run(20), run(21))] * 6)}

    assert "lost" not in names
    assert "pod_minutes" in names
