"""Two sides by pairs: verdicts, missing values, counts that are never tested."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.compare.compare import Bound
from lagbench.core.compare.pairs import Difference, DifferenceVerdict, Pair, compare_pairs
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.errors import WrongInput

GOOD = quick_spike_measures()
REACTION = Bound("reaction_seconds", absolute=5)


def run(
    seed: int, *, reaction: float | None = 20.0, lost: int = 0, pod_minutes: float | None = 10.0
) -> Measures:
    """Return the measures of one run."""
    return GOOD.model_copy(
        update={
            "seed": seed,
            "reaction": GOOD.reaction.model_copy(update={"assigned_seconds": reaction}),
            "scaling": GOOD.scaling.model_copy(update={"pod_minutes": pod_minutes}),
            "accounting": GOOD.accounting.model_copy(update={"lost": lost}),
        }
    )


def pairs_of(differences: Sequence[float | None]) -> list[Pair]:
    """Return pairs whose reactions differ by ``differences``; None: the second has no reaction."""
    return [
        Pair(run(seed), run(seed, reaction=None if value is None else 20 + value))
        for seed, value in enumerate(differences)
    ]


def reaction(
    pairs: Sequence[Pair], *bounds: Bound, looks: Sequence[int] = (6, 8, 12)
) -> Difference:
    """Return the difference in reaction."""
    found = compare_pairs(pairs, bounds or (REACTION,), looks)
    return next(each for each in found if each.name == "reaction_seconds")


def test_every_named_measure_has_a_line() -> None:
    """The registry gives the order."""
    assert [each.name for each in compare_pairs(pairs_of([1] * 6))] == list(NAMED)


def test_a_difference_is_second_minus_first_with_its_t_interval() -> None:
    """Differences 10, 12, 14, 16, 18, 20: mean 15, standard deviation 3.742, t(5) = 2.571."""
    found = reaction(pairs_of([10, 12, 14, 16, 18, 20]))

    assert (found.n, found.mean_first, found.mean_second, found.difference) == (6, 20, 35, 15)
    assert found.low == pytest.approx(15 - 2.5706 * 3.7417 / 6**0.5, abs=1e-3)
    assert found.high == pytest.approx(15 + 2.5706 * 3.7417 / 6**0.5, abs=1e-3)
    assert (found.p, found.p_floor, found.bound) == (0.03125, 0.03125, 5)


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
    """Holm multiplies the lowest p of 8 pairs by each measure that differs in any pair."""
    both = [Pair(run(s), run(s, reaction=40 + s, pod_minutes=20 + s)) for s in range(8)]

    assert reaction(both).holm_p == 0.0078125
    assert reaction(both, REACTION, Bound("pod_minutes", absolute=1)).holm_p == 0.015625


def test_a_measure_that_is_equal_everywhere_takes_no_share() -> None:
    """Pod time is the same in all pairs: it cannot be rejected, and reaction keeps its p."""
    pairs = pairs_of([40, 42, 41, 43, 40, 41, 42, 43])

    found = {d.name: d for d in compare_pairs(pairs, (REACTION, Bound("pod_minutes", absolute=1)))}

    assert found["reaction_seconds"].holm_p == 0.0078125
    assert found["pod_minutes"].verdict == "equivalent"


def test_a_relative_bound_is_of_the_first_side() -> None:
    """25 % of a mean reaction of 20 s are 5 s."""
    assert reaction(pairs_of([1] * 6), Bound("reaction_seconds", relative=0.25)).bound == 5


def test_lost_messages_are_listed_and_never_tested() -> None:
    """A count by identity has sums and runs, no p and no verdict, also with a bound."""
    pairs = [Pair(run(seed), run(seed, lost=3 if seed < 2 else 0)) for seed in range(6)]

    found = {each.name: each for each in compare_pairs(pairs, (REACTION, Bound("lost")))}

    assert found["lost"].verdict == "listed"
    assert (found["lost"].p, found["lost"].low, found["lost"].bound) == (None, None, None)
    assert re.findall(r"\d", found["lost"].text) == ["0", "0", "6", "6", "2"]
    assert {found[n].verdict for n in ("duplicated", "reordered", "zombies")} == {"listed"}


def test_a_measure_without_a_bound_or_a_value_is_listed() -> None:
    """Nothing says which difference would matter; no run had an occasion."""
    found = {each.name: each for each in compare_pairs(pairs_of([1] * 6), (REACTION,))}
    never = reaction([Pair(run(seed, reaction=None), run(seed, reaction=None)) for seed in [1] * 6])

    assert found["pod_minutes"].verdict == never.verdict == "listed"
    assert (found["pod_minutes"].low, found["pod_minutes"].p, never.n) == (0, None, 0)


def test_a_pair_with_a_missing_value_is_left_out_and_counted() -> None:
    """The interval is of the other pairs; the missing value is not zero."""
    found = reaction(pairs_of([10, 12, None, 14, 16, 18, 20, None]))

    assert (found.n, found.left_out, found.difference) == (6, 2, 15)


def test_a_pair_has_one_seed_and_their_number_is_planned() -> None:
    """Two seeds are two loads; seven pairs are no look."""
    two_loads = [Pair(run(seed), run(seed)) for seed in range(5)] + [Pair(run(5), run(6))]
    for pairs, field, value in ((two_loads, "seed", 6), (pairs_of([1] * 7), "pairs", 7)):
        with pytest.raises(WrongInput) as refused:
            compare_pairs(pairs)
        assert refused.value.field.endswith(field)
        assert refused.value.value == value


def test_a_mean_of_counts_shows_a_decimal() -> None:
    """Half a flip is not shown as 0."""
    found = next(d for d in compare_pairs(pairs_of([1] * 6)) if d.name == "flips")

    assert (found.number(0.5), found.number(2.0), found.change(0.5)) == ("0.5", "2", "+0.5")
