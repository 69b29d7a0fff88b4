"""Compare two sides by pairs of runs with the same seed: a three-way verdict on each measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Literal

from lagbench.core.compare.compare import BOUNDS, Bound
from lagbench.core.compare.pair_statistics import MOST_PAIRS, Interval, Looks, holm, sign_flip_p
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import MeasureModel, NamedMeasure
from lagbench.core.significance import PLANNED_LOOKS, floor_of
from lagbench.errors import WrongInput

IDENTITY_COUNTS = frozenset(name for name, of in NAMED.items() if of.part == "accounting")
"""Counts of messages by identity: one is a failure, so they are listed and never tested."""
DifferenceVerdict = Literal["differs", "equivalent", "undetermined", "listed"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs with the same seed, back to back: one of each side."""

    first: Measures
    second: Measures


class Difference(MeasureModel):
    """One measure over all pairs; a difference is second minus first, so below zero is better.

    * ``differs``: the 95 % interval lies wholly beyond the bound, on one side, and the sign-flip
      test rejects "no difference" at the look's alpha, with Holm's correction.
    * ``equivalent``: the 95 % interval lies inside the bound.
    * ``undetermined``: neither; ``pairs_needed`` more pairs would decide, if mean and spread stay.
    * ``listed``: not tested, because it counts messages by identity (one is a failure), because it
      has no bound, or because no run measured it.

    ``None`` means that there are too few values.
    """

    name: str
    title: str
    unit: str
    n: int  # pairs in which both runs have a value
    left_out: int  # pairs in which a value is missing
    mean_first: float | None
    mean_second: float | None
    difference: float | None  # mean of second minus first
    low: float | None  # 95 % interval of the difference (paired t)
    high: float | None
    p: float | None  # two-sided sign-flip test against no difference
    p_floor: float | None  # the lowest p that these pairs could reach
    holm_p: float | None  # p with Holm's correction for all tested measures
    alpha: float | None  # holm_p must reach it at this look
    bound: float | None  # a difference inside +- bound does not matter
    verdict: DifferenceVerdict
    pairs_needed: int | None  # further pairs; None: decided, or no number of pairs would decide
    text: str

    @property
    def heading(self) -> str:
        """The title with the unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def number(self, value: float | None) -> str:
        """Return ``value`` without the unit: a mean of counts has a decimal unless it is whole."""
        measure = NAMED[self.name]
        if value is None or value == round(value) or measure.digits:
            return measure.number(value)
        return f"{value:,.1f}"

    def change(self, value: float | None) -> str:
        """Return ``value`` as a difference, with its sign."""
        text = self.number(value)
        return f"+{text}" if value is not None and value > 0 else text

    def within(self) -> str:
        """Return the bound with its unit."""
        return f"{self.number(self.bound)} {self.unit}".rstrip()


@dataclass(frozen=True)
class _Sample:
    """The values of one measure in pairs, and what a look of the plan says of them."""

    measure: NamedMeasure
    values: Sequence[tuple[float | None, float | None]]
    plan: Looks
    alpha: float

    @cached_property
    def known(self) -> list[tuple[float, float]]:
        """The pairs that have both values."""
        return [(float(a), float(b)) for a, b in self.values if a is not None and b is not None]

    @cached_property
    def differences(self) -> list[float]:
        return [after - before for before, after in self.known]

    @cached_property
    def interval(self) -> Interval | None:
        return Interval.of(self.differences)

    @cached_property
    def missing(self) -> tuple[int, int]:
        """In how many pairs each side lacks the measure."""
        return sum(a is None for a, _ in self.values), sum(b is None for _, b in self.values)

    @property
    def left_out(self) -> int:
        return len(self.values) - len(self.known)

    @property
    def is_selection(self) -> bool:
        """True if one side lacks the measure more often: the pairs that have both are chosen."""
        return self.missing[0] != self.missing[1]

    @property
    def is_unmeasured(self) -> bool:
        return self.missing == (len(self.values), len(self.values))

    def pairs_needed(self, width: float | None, family: int) -> int | None:
        """Return the further pairs after which a verdict is expected; None: never, or not known."""
        interval, pairs_now = self.interval, len(self.values)
        if self.is_selection or interval is None or width is None:
            return None
        for pairs, alpha in self.plan.after(pairs_now):
            measured = pairs - self.left_out
            is_reachable = abs(interval.mean) <= width or floor_of(measured) * family <= alpha
            if measured >= 2 and is_reachable and interval.clears(width, measured):
                return pairs - pairs_now
        return None


def compare_pairs(
    pairs: Sequence[Pair], bounds: Sequence[Bound] = BOUNDS, looks: Sequence[int] = PLANNED_LOOKS
) -> tuple[Difference, ...]:
    """Return the difference of each named measure, in the order of the registry.

    Measures in ``bounds`` are tested, the others listed. Those that differ in any pair are one
    family for Holm's correction: fewer of them need fewer pairs. (A measure that is equal in all
    pairs cannot be rejected, whatever the signs, so it needs no share of alpha.) A bound's relative
    part is of the first side's mean.

    :param looks: the numbers of pairs at which the comparison was planned to be tested.
    :raises WrongInput: the number of pairs is not a planned look, or a pair has two seeds.
    """
    plan = Looks(tuple(looks))
    alpha = plan.alpha_at(len(pairs))
    for pair in pairs:
        if pair.first.seed != pair.second.seed:
            raise WrongInput(
                where="comparison",
                field=f"pair of {pair.first.run_id} and {pair.second.run_id}: seed",
                value=pair.second.seed,
                allowed=f"{pair.first.seed}, the seed of the first run",
            )
    samples = {
        name: _Sample(
            measure,
            [(measure.read(pair.first), measure.read(pair.second)) for pair in pairs],
            plan,
            alpha,
        )
        for name, measure in NAMED.items()
    }
    bound_of = {bound.name: bound for bound in bounds if bound.name not in IDENTITY_COUNTS}
    p_of = {
        name: sign_flip_p(found.differences)
        for name, found in samples.items()
        if name in bound_of and found.interval is not None
    }
    family = [name for name in p_of if any(samples[name].differences)]
    holm_of = dict.fromkeys(p_of, 1.0)  # equal in all pairs: no rejection possible
    holm_of |= dict(zip(family, holm([p_of[name] for name in family]), strict=True))
    return tuple(
        _difference(found, bound_of.get(name), p_of.get(name), holm_of.get(name), len(family))
        for name, found in samples.items()
    )


def _difference(
    found: _Sample, bound: Bound | None, p: float | None, holm_p: float | None, family: int
) -> Difference:
    interval, differences, name = found.interval, found.differences, found.measure.name
    means: list[float | None] = [fmean(side) for side in zip(*found.known, strict=True)]
    means = means or [None, None]
    width = None if bound is None or means[0] is None else bound.width(means[0])
    verdict: DifferenceVerdict = "undetermined"
    if bound is None or found.is_unmeasured:
        verdict = "listed"
    elif found.is_selection or width is None or interval is None or holm_p is None:
        pass
    elif interval.is_inside(width):
        verdict = "equivalent"
    elif interval.is_beyond(width) and holm_p <= found.alpha:
        verdict = "differs"
    shown = None if name in IDENTITY_COUNTS else interval
    is_open = verdict == "undetermined"
    made = Difference(
        name=name,
        title=found.measure.title,
        unit=found.measure.unit,
        n=len(differences),
        left_out=found.left_out,
        mean_first=means[0],
        mean_second=means[1],
        difference=fmean(differences) if differences else None,
        low=None if shown is None else shown.low,
        high=None if shown is None else shown.high,
        p=p,
        # A difference of zero has no sign, so such a pair does not lower the p that can be reached.
        p_floor=None if p is None else floor_of(sum(map(bool, differences))),
        holm_p=holm_p,
        alpha=None if p is None else found.alpha,
        bound=width,
        verdict=verdict,
        pairs_needed=found.pairs_needed(width, family) if is_open else None,
        text="",
    )
    return made.model_copy(update={"text": _text(made, found, family)})


def _text(made: Difference, found: _Sample, family: int) -> str:
    """Return the result as a sentence."""
    parts = [_values_text(made, found)]
    if made.verdict == "differs":
        side = "higher" if (made.difference or 0) > 0 else "lower"
        parts.append(f"the second is {side}, beyond the bound of {made.within()}")
    elif made.verdict == "equivalent" and any(found.differences):
        parts.append(f"inside the bound of {made.within()}")
    elif made.verdict == "equivalent":
        share = 1 - 0.05 ** (1 / made.n)  # a larger share of unequal pairs has chance below 5 %
        unseen = f"a difference in up to {share:.0%} of the pairs would not show"
        parts = [f"equal in all {made.n} pairs; {unseen}"]
    elif made.verdict == "undetermined" and found.is_selection and made.n > 1:
        missing = "runs of one side that did not measure it are missing in the mean"
        parts.append(f"not decided: {missing}")
    elif made.verdict == "undetermined":
        parts.append(_undetermined_text(made, found, family))
    if found.left_out and not found.is_unmeasured:
        parts.append(
            f"{found.left_out} of {len(found.values)} pairs are left out (not measured in "
            f"{found.missing[0]} of the first runs, {found.missing[1]} of the second)"
        )
    return "; ".join(parts)


def _values_text(made: Difference, found: _Sample) -> str:
    if found.is_unmeasured:
        return "not measured in any run"
    if made.difference is None:
        return "no pair has both values"
    if made.name in IDENTITY_COUNTS:
        sides = [*zip(*found.known, strict=True)]
        bad = [sum(map(bool, side)) for side in sides]
        sums = [made.number(sum(side)) for side in sides]
        return f"not tested: {sums[0]} in {bad[0]} of {made.n} runs, {sums[1]} in {bad[1]}"
    if made.low is None:
        return f"{made.number(made.difference)} {made.unit}".rstrip() + " in one pair"
    text = f"{made.change(made.difference)} {made.unit}".rstrip()
    text += f" ({made.change(made.low)} to {made.change(made.high)})"
    if made.p is not None:
        text += f", p {made.p:.2g} (lowest possible {made.p_floor:.2g}), Holm {made.holm_p:.2g}"
    return text


def _undetermined_text(made: Difference, found: _Sample, family: int) -> str:
    if made.bound is None or made.low is None:
        return "too few values"
    text = f"not decided at the bound of {made.within()}"
    lowest = floor_of(made.n) * family
    if lowest > found.alpha:
        text += (
            f" (no difference can be decided with {made.n} pairs and {family} measures: "
            f"lowest Holm p {lowest:.2g}, alpha {found.alpha:.2g})"
        )
    if made.pairs_needed is None:
        return f"{text}; no number of pairs up to {MOST_PAIRS} would decide"
    total = len(found.values) + made.pairs_needed
    outside = "" if total <= found.plan.pairs[-1] else ", in a new plan: this one ends earlier"
    return f"{text}; about {made.pairs_needed} further pairs would ({total} in total{outside})"
