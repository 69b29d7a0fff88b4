"""One run's measures against another's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.compare.compare import (
    BOUNDS,
    Bound,
    compare_measures,
)
from lagbench.core.compare.noise_floor import MeasureNoise, half_width, measure_noise
from lagbench.core.compare.pairs import Pair
from lagbench.core.measures.measures import NAMED, Measures

GOOD = quick_spike_measures()


def changed(part: str, **fields: Any) -> Measures:
    """Return the good run's measures with ``fields`` of ``part`` changed."""
    return GOOD.model_copy(update={part: getattr(GOOD, part).model_copy(update=fields)})


@pytest.mark.parametrize(
    ("part", "fields", "status"),
    [
        ("reaction", {}, "within"),
        ("reaction", {"assigned_seconds": 32.0}, "within"),  # 16.5 s and one HPA sync: luck
        ("reaction", {"assigned_seconds": 33.0}, "regressed"),
        ("accounting", {"duplicated": 1}, "regressed"),  # bad messages have no tolerance
        ("drain", {"drain_seconds": 1.0}, "within"),  # better
    ],
)
def test_a_run_regressed_beyond_a_bound(part: str, fields: dict[str, Any], status: str) -> None:
    """Each bound is compared, and the regressed one is the reason."""
    found = compare_measures(changed(part, **fields), GOOD)

    assert found.status == status
    assert [measure.name for measure in found.measures] == [bound.name for bound in BOUNDS]
    assert len(found.reasons) == (status == "regressed")


def test_the_larger_of_both_bounds_holds() -> None:
    """10 absolute and 50 %: from 100 up to 150, from 10 up to 20."""
    bound = Bound("drain_seconds", absolute=10, relative=0.5)

    assert bound.width(100) == 50
    assert bound.width(10) == 10


@pytest.mark.parametrize("is_now", [True, False])
def test_a_measure_missing_in_one_run_is_undetermined(*, is_now: bool) -> None:
    """Missing is not zero and not within."""
    gap = changed("accounting", lost=None)

    found = compare_measures(gap, GOOD) if is_now else compare_measures(GOOD, gap)

    assert found.status == "undetermined"
    (lost,) = (measure for measure in found.measures if measure.status == "undetermined")
    assert (lost.name, lost.value is None, lost.reference is None) == ("lost", is_now, not is_now)


def test_a_measure_missing_in_both_is_not_compared() -> None:
    """Neither run had a scale step."""
    none = changed("rebalances", max_dip_percent=None, max_recovery_seconds=None)

    found = compare_measures(none, none)

    assert found.status == "within"
    assert {m.name for m in found.measures if m.status == "not_compared"} == {
        "rebalance_dip_percent",
        "rebalance_recovery_seconds",
    }


def test_fidelities_are_never_compared() -> None:
    """A run on a cluster against one of processes: undetermined, whatever the numbers."""
    found = compare_measures(GOOD.model_copy(update={"fidelity": "kubernetes"}), GOOD)

    assert found.status == "undetermined"
    assert {measure.status for measure in found.measures} == {"undetermined"}


def test_each_bound_is_of_a_named_measure() -> None:
    """A bound names a measure of the registry, and no measure has two."""
    names = [bound.name for bound in BOUNDS]

    assert set(names) <= set(NAMED)
    assert len(names) == len(set(names))


def test_a_comparison_is_shown_with_the_decimals_of_its_measure() -> None:
    """The area has two decimals, reaction one, and a count none."""
    found = {m.name: m for m in compare_measures(GOOD, GOOD).measures}

    assert found["rebalance_area_seconds"].heading == "Rebalance area, s"
    assert found["reaction_seconds"].numbers == ("16.5", "32.5", "16.5")
    assert found["lost"].numbers == ("0", "0", "0")


@pytest.mark.parametrize(
    ("measure", "before", "now", "numbers"),
    [
        # The table and the reason show the decimals that decided.
        (("scaling", "pod_minutes"), 24.0, 30.04, ("24.00", "30.00", "30.04")),
        # A peak above a million is no power of ten.
        (
            ("lag", "peak_records"),
            1_000_001,
            1_500_002,
            ("1,000,001.0", "1,500,001.5", "1,500,002.0"),
        ),
        (("reaction", "assigned_seconds"), 16.5, 33.0, ("16.5", "32.5", "33.0")),
    ],
)
def test_a_regression_reads_as_above_what_is_allowed(
    measure: tuple[str, str], before: float, now: float, numbers: tuple[str, ...]
) -> None:
    """Reference, allowed and value."""
    part, field = measure
    found = compare_measures(changed(part, **{field: now}), changed(part, **{field: before}))

    (regression,) = (each for each in found.measures if each.status == "regressed")
    assert regression.numbers == numbers
    assert f": {now:.10g} " in found.reasons[0]
    assert f" {before:.10g} (at most" in found.reasons[0]


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
