"""Write a difference as a sentence."""

from __future__ import annotations

from lagbench.core.compare.pairs.difference import Difference
from lagbench.core.compare.pairs.looks import Look
from lagbench.core.compare.pairs.sample import IDENTITY_COUNTS, Sample
from lagbench.core.compare.pairs.sign_flip import MOST_PAIRS
from lagbench.core.significance import floor_of

_SELECTION = "not decided: runs of one side that did not measure it are missing in the mean"


def difference_text(made: Difference, found: Sample, look: Look) -> str:
    """Return the result as a sentence."""
    is_equal = made.verdict == "equivalent" and not any(found.differences)
    parts = [] if is_equal else [_values_text(made, found)]
    if made.verdict == "differs":
        side = "higher" if (made.difference or 0) > 0 else "lower"
        parts.append(f"the second is {side}, beyond the bound of {_with_unit(made, made.bound)}")
    elif made.verdict == "equivalent":
        inside = f"inside the bound of {_with_unit(made, made.bound)}"
        parts.append(_equal_text(made) if is_equal else inside)
    elif made.verdict == "undetermined":
        is_chosen = found.is_selection and made.n > 1
        parts.append(_SELECTION if is_chosen else _undetermined_text(made, look))
    if found.left_out and not found.is_unmeasured:
        parts.append(
            f"{found.left_out} of {look.pairs} pairs are left out (not measured in "
            f"{found.missing_first} of the first runs, {found.missing_second} of the second)"
        )
    return "; ".join(parts)


def _values_text(made: Difference, found: Sample) -> str:
    if found.is_unmeasured:
        return "not measured in any run"
    if made.difference is None:
        return "no pair has both values"
    if made.name in IDENTITY_COUNTS:
        bad = [sum(bool(value) for value in side) for side in (found.first, found.second)]
        sums = [made.number(sum(side)) for side in (found.first, found.second)]
        return f"not tested: {sums[0]} in {bad[0]} of {made.n} runs, {sums[1]} in {bad[1]}"
    if made.low is None or made.high is None:
        return f"{_with_unit(made, made.difference)} in one pair"
    text = (
        f"{made.change(made.difference)} {made.unit}".rstrip()
        + f" ({made.change(made.low)} to {made.change(made.high)})"
    )
    if made.p is not None and made.p_floor is not None and made.holm_p is not None:
        text += f", p {made.p:.2g} (lowest possible {made.p_floor:.2g}), Holm {made.holm_p:.2g}"
    return text


def _equal_text(made: Difference) -> str:
    """Say what equal pairs do not exclude: a larger share of unequal ones has chance below 5 %."""
    share = 1 - 0.05 ** (1 / made.n)
    unseen = f"a difference in up to {share:.0%} of the pairs would not show"
    return f"equal in all {made.n} pairs; {unseen}"


def _undetermined_text(made: Difference, look: Look) -> str:
    if made.bound is None or made.low is None:
        return "too few values"
    text = f"not decided at the bound of {_with_unit(made, made.bound)}"
    lowest = floor_of(made.n) * look.family
    if lowest > look.alpha:
        text += (
            f" (no difference can be decided with {made.n} pairs and {look.family} measures: "
            f"lowest Holm p {lowest:.2g}, alpha {look.alpha:.2g})"
        )
    if made.pairs_needed is None:
        return f"{text}; no number of pairs up to {MOST_PAIRS} would decide"
    total = look.pairs + made.pairs_needed
    outside = "" if total <= look.plan.pairs[-1] else ", in a new plan: this one ends earlier"
    return f"{text}; about {made.pairs_needed} further pairs would ({total} in total{outside})"


def _with_unit(made: Difference, value: float | None) -> str:
    return f"{made.number(value)} {made.unit}".rstrip()
