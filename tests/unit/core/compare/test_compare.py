"""One run's measures against another's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from tests.fakes.measured_run import changed, quick_spike_measures
from tests.fakes.nights import measures_with

from lagbench.core.compare.compare import (
    BOUNDS,
    Bound,
    compare_measures,
)
from lagbench.core.compare.noise_floor import MeasureNoise, measure_noise
from lagbench.core.compare.pairs import Difference, DifferenceVerdict, Pair, compare_pairs
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.errors import WrongInput

GOOD = quick_spike_measures()


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


def test_each_bound_is_of_a_named_measure_and_shown_with_its_decimals() -> None:
    """The area has two decimals, reaction one, and a count none; no measure has two bounds."""
    names = [bound.name for bound in BOUNDS]
    assert set(names) <= set(NAMED)
    assert len(names) == len(set(names))
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


def run(reaction: float | None) -> Measures:
    """Return a run with this reaction."""
    return changed("reaction", assigned_seconds=reaction)


def noise(differences: Sequence[float | None]) -> MeasureNoise | None:
    """Return the noise of the reaction over A/A pairs with these differences."""
    pairs = [Pair(run(20), run(None if d is None else 20 + d)) for d in differences]
    return next((each for each in measure_noise(pairs) if each.name == "reaction_seconds"), None)


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        # t(8) = 2.306, because the mean is known to be zero.
        ([1, -1] * 4, (pytest.approx(2.306, abs=1e-3), 8)),
        # One sync of 15 s missed in eight: the root mean square alone would give 12.2 s.
        ([0] * 7 + [15], (15, 8)),
        # Missing values are left out; with five pairs there is no floor, which is not zero.
        ([1, 1, None, 1, 1, 1, 1], (pytest.approx(2.447, abs=1e-3), 6)),
        ([1, 1, None, 1, 1, 1], None),
    ],
)
def test_the_noise_floor_holds_the_next_difference(
    differences: list[float | None], expected: Any
) -> None:
    """It is t times the root mean square, and at least where the rare large ones lie."""
    found = noise(differences)

    assert (None if found is None else (found.half_width, found.n)) == expected


def test_counts_by_identity_have_no_noise() -> None:
    """A lost message is a failure, whatever the noise."""
    names = {each.name for each in measure_noise([Pair(run(20), run(21))] * 6)}

    assert ("lost" in names, "pod_minutes" in names) == (False, True)


REACTION = Bound("reaction_seconds", absolute=5)


def run_of_compare_pairs(
    seed: int, *, reaction: float | None = 20.0, lost: int = 0, pod_minutes: float | None = 10.0
) -> Measures:
    """Return the measures of one run."""
    return measures_with(
        reaction={"assigned_seconds": reaction},
        scaling={"pod_minutes": pod_minutes},
        accounting={"lost": lost},
    ).model_copy(update={"seed": seed})


def pairs_of(differences: Sequence[float | None]) -> list[Pair]:
    """Return pairs whose reactions differ by ``differences``; None: the second has no reaction."""
    return [
        Pair(
            run_of_compare_pairs(seed),
            run_of_compare_pairs(seed, reaction=None if value is None else 20 + value),
        )
        for seed, value in enumerate(differences)
    ]


def reaction(
    pairs: Sequence[Pair], *bounds: Bound, looks: Sequence[int] = (6, 8, 12)
) -> Difference:
    """Return the difference in reaction."""
    found = compare_pairs(pairs, bounds or (REACTION,), looks)
    return next(each for each in found if each.name == "reaction_seconds")


def test_a_difference_is_second_minus_first_with_its_t_interval() -> None:
    """Differences 10, 12, 14, 16, 18, 20: mean 15, standard deviation 3.742, t(5) = 2.571.

    A pair with a missing value is left out and counted; every named measure has a line.
    """
    pairs = pairs_of([10, 12, None, 14, 16, 18, 20, None])
    found = reaction(pairs)

    assert (found.n, found.left_out) == (6, 2)
    assert (found.mean_first, found.mean_second, found.difference) == (20, 35, 15)
    half = pytest.approx(2.5706 * 3.7417 / 6**0.5, abs=1e-3)
    assert (15 - (found.low or 0), (found.high or 0) - 15) == (half, half)
    assert (found.p, found.p_floor, found.bound) == (0.03125, 0.03125, 5)
    assert [each.name for each in compare_pairs(pairs)] == list(NAMED)


@pytest.mark.parametrize(
    ("differences", "looks", "verdict", "pairs_needed"),
    [
        ([10, 12, 14, 16, 18, 20, 15, 15], (6, 8, 12), "differs", None),
        ([-10, -12, -14, -16, -18, -20, -15, -15], (6, 8, 12), "differs", None),
        ([1, 1.2, 0.8, 1.1, 0.9, 1, 1.05, 0.95], (6, 8, 12), "equivalent", None),
        # Of 12 planned pairs six may spend 2.5 %, below their lowest p of 3.1 %; alone they decide.
        ([40, 42, 41, 43, 40, 41], (6, 8, 12), "undetermined", 2),
        ([40, 42, 41, 43, 40, 41], (6,), "differs", None),
        # The lowest p of five is 6.25 %, however large the difference.
        ([400, 420, 410, 430, 400], (5,), "undetermined", 1),
        # No number of pairs separates a difference from a bound that it equals.
        ([4, 6, 4, 6, 4, 6], (6, 8, 12), "undetermined", None),
        # Runs of one side lack the measure: the pairs that are left are the good ones.
        ([0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, None], (6, 8, 12), "undetermined", None),
        ([15, 15.1, 15.2, 15.3, 15.4, 15.5, 15.6, None], (6, 8, 12), "undetermined", None),
        ([1, None, None, None, None, None], (6, 8, 12), "undetermined", None),
    ],
)
def test_a_verdict_needs_the_interval_and_the_test(
    differences: list[float | None],
    looks: tuple[int, ...],
    verdict: DifferenceVerdict,
    pairs_needed: int | None,
) -> None:
    """The bound is 5 s."""
    found = reaction(pairs_of(differences), looks=looks)

    assert (found.verdict, found.pairs_needed) == (verdict, pairs_needed)


def test_across_the_bound_it_says_how_many_pairs_it_needs() -> None:
    """Mean 2.5 s, but the interval ends beyond 5 s; the next looks are narrow enough."""
    found = reaction(pairs_of([8, -3, 6, 1, 7, -4]))

    assert found.verdict == "undetermined"
    assert f" {found.pairs_needed} " in found.text


def test_more_measures_need_more_pairs() -> None:
    """Holm multiplies the lowest p of 8 pairs by each measure that differs in any pair.

    One that is equal in all of them cannot be rejected, and takes no share.
    """
    both = [
        Pair(run_of_compare_pairs(s), run_of_compare_pairs(s, reaction=40 + s, pod_minutes=20 + s))
        for s in range(8)
    ]
    minutes = Bound("pod_minutes", absolute=1)
    assert reaction(both).holm_p == 0.0078125
    assert reaction(both, REACTION, minutes).holm_p == 0.015625

    pairs = pairs_of([40, 42, 41, 43, 40, 41, 42, 43])
    found = {each.name: each for each in compare_pairs(pairs, (REACTION, minutes))}
    assert found["reaction_seconds"].holm_p == 0.0078125
    assert found["pod_minutes"].verdict == "equivalent"


def test_lost_messages_are_listed_and_never_tested() -> None:
    """A count by identity has sums and runs, no p and no verdict, also with a bound."""
    pairs = [
        Pair(run_of_compare_pairs(seed), run_of_compare_pairs(seed, lost=3 if seed < 2 else 0))
        for seed in range(6)
    ]

    found = {each.name: each for each in compare_pairs(pairs, (REACTION, Bound("lost")))}

    assert found["lost"].verdict == "listed"
    assert (found["lost"].p, found["lost"].low, found["lost"].bound) == (None, None, None)
    assert re.findall(r"\d", found["lost"].text) == ["0", "0", "6", "6", "2"]
    assert {found[n].verdict for n in ("duplicated", "reordered", "zombies")} == {"listed"}


def test_a_measure_without_a_bound_or_a_value_is_listed() -> None:
    """Nothing says which difference would matter; no run had an occasion."""
    found = {each.name: each for each in compare_pairs(pairs_of([1] * 6), (REACTION,))}
    never = reaction(
        [
            Pair(
                run_of_compare_pairs(seed, reaction=None), run_of_compare_pairs(seed, reaction=None)
            )
            for seed in [1] * 6
        ]
    )

    assert found["pod_minutes"].verdict == never.verdict == "listed"
    assert (found["pod_minutes"].low, found["pod_minutes"].p, never.n) == (0, None, 0)


def test_a_pair_has_one_seed_and_their_number_is_planned() -> None:
    """Two seeds are two loads; seven pairs are no look."""
    two_loads = [
        Pair(run_of_compare_pairs(seed), run_of_compare_pairs(seed)) for seed in range(5)
    ] + [Pair(run_of_compare_pairs(5), run_of_compare_pairs(6))]
    for pairs, field, value in ((two_loads, "seed", 6), (pairs_of([1] * 7), "pairs", 7)):
        with pytest.raises(WrongInput) as refused:
            compare_pairs(pairs)
        assert refused.value.field.endswith(field)
        assert refused.value.value == value


def test_a_bound_may_be_relative_and_a_mean_of_counts_shows_a_decimal() -> None:
    """25 % of the first side's mean of 20 s are 5 s; half a flip is not shown as 0."""
    pairs = pairs_of([1] * 6)
    flips = next(each for each in compare_pairs(pairs) if each.name == "flips")

    assert reaction(pairs, Bound("reaction_seconds", relative=0.25)).bound == 5
    assert (flips.number(0.5), flips.number(2.0), flips.change(0.5)) == ("0.5", "2", "+0.5")
