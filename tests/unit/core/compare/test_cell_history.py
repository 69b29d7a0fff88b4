"""Change points of a cell: segments, suspicion and confirmation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from lagbench.core.compare.cell_history import (
    HistoryRow,
    best_split,
    by_cell,
    cell_history,
)
from lagbench.core.compare.cell_identity import flat_manifest
from lagbench.core.compare.compare import Bound
from lagbench.core.compare.pair_statistics import Looks, holm, sign_flip_p
from lagbench.core.significance import PLANNED_LOOKS, SIGNIFICANCE, floor_of
from lagbench.errors import WrongInput

MANIFEST = {"machine.cores": "2", "versions.kafka": "4.3.1"}

BOUNDS = (Bound("reaction_seconds", absolute=2), Bound("pod_minutes", relative=0.25))


def rows_of(
    reactions: Sequence[float | None],
    *,
    manifests: Mapping[int, dict[str, str]] | None = None,
    **more: Any,
) -> list[HistoryRow]:
    """Return a row per value; ``manifests`` takes effect from that row on."""
    found, manifest = [], MANIFEST
    for index, value in enumerate(reactions):
        manifest = (manifests or {}).get(index, manifest)
        given: dict[str, Any] = {
            "run_id": f"run-{index:02}",
            "created_at": index,
            "scenario": "quick_spike",
            "policy": "p",
            "seed": 1,
            "fidelity": "processes",
            "cell": "c",
            "verdict": "pass",
            "is_invalid": False,
            "measures": {"reaction_seconds": value, "pod_minutes": 10.0, "lost": index / 9 // 2},
            "manifest": manifest,
        }
        found.append(HistoryRow(**(given | more)))
    return found


def noise(count: int, mean: float = 20.0) -> list[float]:
    """Return normal values with a standard deviation of 1 s."""
    return [float(value) for value in np.random.default_rng(7).normal(mean, 1, count)]


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        pytest.param(noise(20) + noise(4, 40), [("run-20", "confirmed")], id="four runs"),
        pytest.param(noise(40) + noise(2, 40), [("run-40", "suspected")], id="two runs"),
        pytest.param([*noise(40), 60.0], [], id="an outlier is the gate's"),
        pytest.param(noise(40), [], id="noise"),
        pytest.param([v / 5 for v in noise(20)] + [v / 5 + 1.5 for v in noise(10)], [], id="bound"),
        pytest.param(
            noise(15) + noise(15, 40) + noise(15),
            [("run-15", "confirmed"), ("run-30", "confirmed")],
            id="the parts are searched again",
        ),
        pytest.param([*noise(20), None, *noise(4, 40)], [("run-21", "confirmed")], id="gap"),
    ],
)
def test_lasting_shifts_are_changes(
    values: list[float | None], changes: list[tuple[str, str]]
) -> None:
    """Lost messages are not searched: each is a failure of its run, whatever the history."""
    found = cell_history(rows_of(values), (*BOUNDS, Bound("lost"))).newest_changes

    assert sorted((change.first_run_after, change.status) for change in found) == changes
    assert {change.measure for change in found} <= {"reaction_seconds"}


def test_a_change_says_what_it_was_and_is() -> None:
    """Lower is better; the means, and of how many runs."""
    (change,) = cell_history(rows_of(noise(20, 40) + noise(6)), BOUNDS).newest_changes

    assert (change.last_run_before, change.first_run_after) == ("run-19", "run-20")
    assert (change.points_before, change.points_after) == (20, 6)
    assert re_numbers(change.text) >= {"39.7", "19.6"}
    assert "better" in change.text


def re_numbers(text: str) -> set[str]:
    """Return the words of a text that are numbers."""
    return {word for word in text.split() if word.replace(".", "").isdigit()}


def test_a_new_version_begins_a_segment() -> None:
    """The shift has a known reason; only the newest segment's changes are news."""
    upgrade = {26: MANIFEST | {"versions.kafka": "4.4.0"}}

    found = cell_history(rows_of(noise(20) + noise(12, 40), manifests=upgrade), BOUNDS)

    assert [len(segment.run_ids) for segment in found.segments] == [26, 6]
    assert found.segments[1].began_because == ("versions.kafka: 4.3.1 against 4.4.0",)
    assert [len(segment.changes) for segment in found.segments] == [1, 0]
    assert found.newest_changes == ()


def test_undetermined_and_invalid_runs_are_left_out_and_named() -> None:
    """They measured something else; without any result there is no segment."""
    rows = rows_of(noise(10))
    rows[3] = rows[3].model_copy(update={"verdict": "undetermined"})
    rows[5] = rows[5].model_copy(update={"verdict": "fail", "is_invalid": True})
    rows[6] = rows[6].model_copy(update={"verdict": "fail"})

    found = cell_history(rows, BOUNDS)
    assert found.left_out == ("run-03", "run-05")
    assert len(found.segments[0].run_ids) == 8
    assert cell_history(rows_of([1.0], verdict="undetermined"), BOUNDS).segments == ()


def test_runs_are_grouped_by_cell_and_manifests_flat() -> None:
    """A run whose folder does not show its cell is in none; what is not known is left out."""
    rows = [*rows_of([1, 2]), *rows_of([3], cell="d"), *rows_of([4], cell=None)]
    assert {cell: len(found) for cell, found in by_cell(rows).items()} == {"c": 2, "d": 1}

    flat = flat_manifest({"machine": {"cores": 2, "processor": None}, "lock": "x"})
    assert flat == {"machine.cores": "2", "lock": "x"}


def by_definition(values: np.ndarray, at: int) -> float:
    """Return the scaled energy distance of a split, from its definition."""
    before, after = values[:at], values[at:]
    m, n = len(before), len(after)
    between = np.mean([abs(x - y) for x in before for y in after])
    within = [np.mean([abs(x - y) for x, y in combinations(part, 2)]) for part in (before, after)]
    return float(m * n / (m + n) * (2 * between - within[0] - within[1]))


def test_the_split_has_the_largest_energy_distance() -> None:
    """Against the definition, pair by pair; the same series gives the same answer."""
    values = np.random.default_rng(3).normal(size=15)
    values[9:] += 2

    split = best_split(values)

    assert split[0] == max(range(4, 12), key=lambda at: by_definition(values, at))
    assert split == best_split(values.copy())


def test_few_or_equal_values_have_no_split() -> None:
    """Four are the fewest on each side; equal ones do not change."""
    for values in (np.arange(0.0), np.arange(7.0), np.ones(10)):
        assert best_split(values) == (0, 1.0)
    assert best_split(np.arange(8.0))[0] == 4


PLAN = Looks(PLANNED_LOOKS)


def by_hand(differences: list[float]) -> float:
    """Return the p-value by going through every choice of signs."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * abs(value) for sign, value in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(total >= observed - 1e-9 for total in sums) / len(sums)


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 8, 11])
def test_the_sign_flip_test_counts_every_choice_of_signs(n: int) -> None:
    """The two halves together give the same count as all 2^n sums, with equal sizes too."""
    draw = np.random.default_rng(n)
    for differences in (draw.normal(1, 2, n).tolist(), draw.integers(-3, 4, n).tolist()):
        assert sign_flip_p(differences) == pytest.approx(by_hand(differences))


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0, 2, 3, 4, 5], 0.0625),  # five pairs never reach 5 %
        ([1.0, 2, 3, 4, 5, 6], 0.03125),
        ([1.0, 2, 0, 3, 0, 4], floor_of(4)),  # a pair without a difference has no sign
        ([0.0] * 8, 1),
        ([0.1, 0.2, -0.3], 1),  # a tie but for rounding
        ([1.0 + i / 7 for i in range(40)], floor_of(40)),  # exact with forty pairs, too
    ],
)
def test_its_p_has_a_floor(differences: list[float], p: float) -> None:
    """All signs alike reach 2/2^n, and nothing is below it."""
    assert sign_flip_p(differences) == p


def test_holm_multiplies_by_the_measures_left() -> None:
    """The order given is kept, and no value sinks again."""
    assert holm([0.04, 0.01, 0.03]) == pytest.approx((0.06, 0.03, 0.06))
    assert holm([0.5, 0.9]) == pytest.approx((1.0, 1.0))
    assert holm([]) == ()


def test_the_planned_looks_divide_alpha() -> None:
    """At 6 of 12 pairs half of alpha, at 8 two thirds (none was spent before), then the rest."""
    assert PLAN.alpha_at(6) == pytest.approx(0.025)
    assert PLAN.alpha_at(8) == pytest.approx(0.05 * 8 / 12)
    assert PLAN.alpha_at(12) == pytest.approx(0.05 - 4 * floor_of(8))
    assert Looks((6,)).alpha_at(6) == pytest.approx(SIGNIFICANCE)


@pytest.mark.parametrize("looks", [(6, 8, 12), (8, 16), (2, 4, 6, 8, 10, 12), (5, 6, 7)])
def test_no_plan_spends_more_than_alpha(looks: tuple[int, ...]) -> None:
    """The highest p-values that the looks may reject add up to at most alpha."""
    plan = Looks(looks)

    assert sum(plan.alpha_at(n) // floor_of(n) * floor_of(n) for n in looks) <= SIGNIFICANCE


@pytest.mark.parametrize("looks", [(), (8, 6), (6, 6), (1, 6), (6, 41)])
def test_a_plan_that_cannot_be_tested_is_refused(looks: tuple[int, ...]) -> None:
    """Empty, not ascending, one pair, or more than the exact test can count.

    A test "until it is significant" has no plan: a look outside of it is refused, too.
    """
    with pytest.raises(WrongInput, match="looks"):
        Looks(looks)
    for pairs in (1, 7, 13):
        with pytest.raises(WrongInput) as refused:
            PLAN.alpha_at(pairs)
        assert (refused.value.field, refused.value.value) == ("pairs", pairs)
