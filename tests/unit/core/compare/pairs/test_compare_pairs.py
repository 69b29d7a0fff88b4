"""Two sides by pairs: verdicts, missing values, counts that are never tested."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.compare.compare import Bound
from lagbench.core.compare.pairs.compare_pairs import compare_pairs
from lagbench.core.compare.pairs.difference import Difference, Pair
from lagbench.core.measures import NAMED, Measures
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


def test_every_named_measure_has_a_line_with_its_title_and_unit() -> None:
    """The registry gives order, titles and units."""
    found = compare_pairs(pairs_of([1, 2, 3, 4, 5, 6]))

    assert [each.name for each in found] == list(NAMED)
    assert {(each.title, each.unit) for each in found} == {
        (measure.title, measure.unit) for measure in NAMED.values()
    }


def test_a_difference_is_second_minus_first_with_its_t_interval() -> None:
    """Differences 10, 12, 14, 16, 18, 20: mean 15, standard deviation 3.742, t(5) = 2.571."""
    found = reaction(pairs_of([10, 12, 14, 16, 18, 20]))

    assert (found.n, found.mean_first, found.mean_second, found.difference) == (6, 20, 35, 15)
    assert found.low == pytest.approx(15 - 2.5706 * 3.7417 / 6**0.5, abs=1e-3)
    assert found.high == pytest.approx(15 + 2.5706 * 3.7417 / 6**0.5, abs=1e-3)
    assert (found.p, found.p_floor, found.bound) == (0.03125, 0.03125, 5)


def test_beyond_the_bound_it_differs() -> None:
    """Eight pairs, all around +15 s with a bound of 5 s: p 0.8 % is within the look's alpha."""
    found = reaction(pairs_of([10, 12, 14, 16, 18, 20, 15, 15]))

    assert found.verdict == "differs"
    assert found.holm_p == 0.0078125
    assert found.alpha is not None
    assert found.holm_p <= found.alpha
    for number in ("+15.0 s", "5.0 s", "0.0078"):
        assert number in found.text


def test_a_lower_second_side_differs_too() -> None:
    """The test is two-sided."""
    found = reaction(pairs_of([-10, -12, -14, -16, -18, -20, -15, -15]))

    assert (found.verdict, found.difference) == ("differs", -15)


def test_inside_the_bound_it_is_equivalent() -> None:
    """The whole interval lies in +-5 s, although p alone would call the difference real."""
    found = reaction(pairs_of([1, 1.2, 0.8, 1.1, 0.9, 1, 1.05, 0.95]))

    assert found.verdict == "equivalent"
    assert found.p == 0.0078125
    assert found.pairs_needed is None


def test_across_the_bound_it_is_undetermined_and_says_how_many_pairs_it_needs() -> None:
    """Mean 2.5 s, but the interval ends beyond 5 s; the next looks are narrow enough."""
    found = reaction(pairs_of([8, -3, 6, 1, 7, -4]))

    assert found.verdict == "undetermined"
    assert found.pairs_needed is not None
    assert f" {found.pairs_needed} " in found.text


def test_six_pairs_of_a_plan_to_twelve_decide_no_difference() -> None:
    """2.5 % may be spent there and 3.1 % is the lowest p: the next look decides."""
    found = reaction(pairs_of([40, 42, 41, 43, 40, 41]))

    assert (found.verdict, found.pairs_needed) == ("undetermined", 2)


def test_six_pairs_decide_if_they_are_the_whole_plan() -> None:
    """A plan of one look has the whole 5 %."""
    assert reaction(pairs_of([40, 42, 41, 43, 40, 41]), looks=(6,)).verdict == "differs"


def test_five_pairs_never_differ() -> None:
    """The lowest p is 6.25 %, however large the difference; one more pair would decide."""
    found = reaction(pairs_of([400, 420, 410, 430, 400]), looks=(5,))

    assert (found.verdict, found.p_floor, found.pairs_needed) == ("undetermined", 0.0625, 1)


def test_more_measures_need_more_pairs() -> None:
    """Holm multiplies the lowest p of 8 pairs by each measure that differs in any pair."""
    seeds = range(8)
    both = [Pair(run(s), run(s, reaction=40 + s, pod_minutes=20 + s)) for s in seeds]
    one = reaction(both)
    two = reaction(both, REACTION, Bound("pod_minutes", absolute=1))

    assert one.holm_p == 0.0078125
    assert two.holm_p == 0.015625


def test_a_measure_that_is_equal_everywhere_takes_no_share() -> None:
    """Pod time is the same in all pairs: it cannot be rejected, and reaction keeps its p."""
    pairs = pairs_of([40, 42, 41, 43, 40, 41, 42, 43])

    found = {d.name: d for d in compare_pairs(pairs, (REACTION, Bound("pod_minutes", absolute=1)))}

    assert found["reaction_seconds"].holm_p == 0.0078125
    assert found["pod_minutes"].verdict == "equivalent"
    assert "31%" in found["pod_minutes"].text


def test_a_relative_bound_is_of_the_first_side() -> None:
    """25 % of a mean reaction of 20 s are 5 s."""
    found = reaction(pairs_of([1] * 6), Bound("reaction_seconds", relative=0.25))

    assert found.bound == 5


def test_lost_messages_are_listed_and_never_tested() -> None:
    """A count by identity has sums and runs, no p and no verdict, also with a bound."""
    pairs = [Pair(run(seed), run(seed, lost=3 if seed < 2 else 0)) for seed in range(6)]

    found = {each.name: each for each in compare_pairs(pairs, (REACTION, Bound("lost")))}

    assert found["lost"].verdict == "listed"
    assert (found["lost"].p, found["lost"].low, found["lost"].bound) == (None, None, None)
    assert re.findall(r"\d", found["lost"].text) == ["0", "0", "6", "6", "2"]
    assert {found[n].verdict for n in ("duplicated", "reordered", "zombies")} == {"listed"}


def test_a_measure_without_a_bound_is_listed_with_its_interval() -> None:
    """Nothing says which difference would matter."""
    found = {each.name: each for each in compare_pairs(pairs_of([1] * 6), (REACTION,))}

    assert found["pod_minutes"].verdict == "listed"
    assert (found["pod_minutes"].low, found["pod_minutes"].p) == (0, None)


def test_a_pair_with_a_missing_value_is_left_out_and_counted() -> None:
    """The interval is of the other pairs; the missing value is not zero."""
    found = reaction(pairs_of([10, 12, None, 14, 16, 18, 20, None]))

    assert (found.n, found.left_out, found.difference) == (6, 2, 15)


@pytest.mark.parametrize("difference", [0.1, 15])
def test_runs_that_lack_the_measure_on_one_side_leave_it_undetermined(difference: float) -> None:
    """Pods that did not come have no reaction: the pairs that are left are the good ones."""
    found = reaction(pairs_of([difference + number / 100 for number in range(7)] + [None]))

    assert (found.verdict, found.n, found.pairs_needed) == ("undetermined", 7, None)


def test_too_few_values_are_undetermined() -> None:
    """One pair with both values has no interval, and is no equivalence."""
    found = reaction(pairs_of([1, None, None, None, None, None]))

    assert (found.verdict, found.n, found.low, found.pairs_needed) == (
        "undetermined",
        1,
        None,
        None,
    )


def test_a_measure_that_no_run_has_is_listed() -> None:
    """A load without a spike has no reaction on either side: nothing to compare."""
    pairs = [Pair(run(seed, reaction=None), run(seed, reaction=None)) for seed in range(6)]

    assert (reaction(pairs).verdict, reaction(pairs).n) == ("listed", 0)


def test_a_mean_at_the_bound_is_never_decided() -> None:
    """No number of pairs separates a difference from a bound that it equals."""
    found = reaction(pairs_of([4, 6, 4, 6, 4, 6]))

    assert (found.verdict, found.pairs_needed) == ("undetermined", None)


def test_a_pair_has_one_seed() -> None:
    """Two seeds are two loads."""
    pairs = [Pair(run(seed), run(seed)) for seed in range(5)] + [Pair(run(5), run(6))]

    with pytest.raises(WrongInput) as refused:
        compare_pairs(pairs)

    assert refused.value.field.endswith("seed")
    assert refused.value.value == 6


def test_a_number_of_pairs_outside_the_plan_is_refused() -> None:
    """Seven pairs are no planned look."""
    with pytest.raises(WrongInput) as refused:
        compare_pairs(pairs_of([1] * 7))

    assert (refused.value.field, refused.value.value) == ("pairs", 7)


def test_a_mean_of_counts_shows_a_decimal() -> None:
    """Half a flip is not shown as 0."""
    pairs = pairs_of([1] * 6)
    found = next(d for d in compare_pairs(pairs) if d.name == "flips")

    assert (found.number(0.5), found.number(2.0), found.change(0.5)) == ("0.5", "2", "+0.5")
