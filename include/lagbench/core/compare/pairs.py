"""Compare two sides by pairs of runs with the same seed: a three-way verdict on each measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class _Sample:
    """The values of one measure: of the pairs that have both, and how often one is missing."""

    measure: NamedMeasure
    first: tuple[float, ...]
    second: tuple[float, ...]
    missing_first: int
    missing_second: int
    pairs: int

    @classmethod
    def of(cls, measure: NamedMeasure, pairs: Sequence[Pair]) -> _Sample:
        values = [(measure.read(pair.first), measure.read(pair.second)) for pair in pairs]
        known = [(float(a), float(b)) for a, b in values if a is not None and b is not None]
        return cls(
            measure,
            tuple(a for a, _ in known),
            tuple(b for _, b in known),
            missing_first=sum(a is None for a, _ in values),
            missing_second=sum(b is None for _, b in values),
            pairs=len(pairs),
        )

    @property
    def left_out(self) -> int:
        return self.pairs - len(self.first)

    @property
    def differences(self) -> list[float]:
        return [after - before for before, after in zip(self.first, self.second, strict=True)]

    @property
    def interval(self) -> Interval | None:
        return Interval.of(self.differences)

    @property
    def is_selection(self) -> bool:
        """True if one side lacks the measure more often: the pairs that have both are chosen."""
        return self.missing_first != self.missing_second

    @property
    def is_unmeasured(self) -> bool:
        return self.missing_first == self.missing_second == self.pairs


@dataclass(frozen=True, slots=True)
class _Look:
    """One look of the plan: its pairs, its alpha, and the number of measures that it tests."""

    pairs: int
    alpha: float
    family: int
    plan: Looks


def compare_pairs(
    pairs: Sequence[Pair],
    bounds: Sequence[Bound] = BOUNDS,
    looks: Sequence[int] = PLANNED_LOOKS,
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
    samples = [_Sample.of(measure, pairs) for measure in NAMED.values()]
    bound_of = {bound.name: bound for bound in bounds if bound.name not in IDENTITY_COUNTS}
    tested = {
        found.measure.name: sign_flip_p(found.differences)
        for found in samples
        if found.measure.name in bound_of and found.interval is not None
    }
    family = [found.measure.name for found in samples if any(found.differences)]
    family = [name for name in family if name in tested]
    adjusted = dict.fromkeys(tested, 1.0)  # equal in all pairs: no rejection possible
    adjusted |= dict(zip(family, holm([tested[name] for name in family]), strict=True))
    look = _Look(len(pairs), alpha, len(family), plan)
    return tuple(
        _difference(
            found,
            bound_of.get(found.measure.name),
            tested.get(found.measure.name),
            adjusted.get(found.measure.name),
            look,
        )
        for found in samples
    )


def _difference(
    found: _Sample, bound: Bound | None, p: float | None, holm_p: float | None, look: _Look
) -> Difference:
    interval, differences, name = found.interval, found.differences, found.measure.name
    width = None if bound is None or not found.first else bound.width(fmean(found.first))
    verdict: DifferenceVerdict = "undetermined"
    if bound is None or found.is_unmeasured:
        verdict = "listed"
    elif found.is_selection or width is None or interval is None or holm_p is None:
        pass
    elif interval.is_inside(width):
        verdict = "equivalent"
    elif interval.is_beyond(width) and holm_p <= look.alpha:
        verdict = "differs"
    shown = None if name in IDENTITY_COUNTS else interval
    made = Difference(
        name=name,
        title=found.measure.title,
        unit=found.measure.unit,
        n=len(differences),
        left_out=found.left_out,
        mean_first=fmean(found.first) if found.first else None,
        mean_second=fmean(found.second) if found.second else None,
        difference=fmean(differences) if differences else None,
        low=None if shown is None else shown.low,
        high=None if shown is None else shown.high,
        p=p,
        # A difference of zero has no sign, so such a pair does not lower the p that can be reached.
        p_floor=None if p is None else floor_of(sum(map(bool, differences))),
        holm_p=holm_p,
        alpha=None if p is None else look.alpha,
        bound=width,
        verdict=verdict,
        pairs_needed=_pairs_needed(found, width, look) if verdict == "undetermined" else None,
        text="",
    )
    return made.model_copy(update={"text": _text(made, found, look)})


def _pairs_needed(found: _Sample, width: float | None, look: _Look) -> int | None:
    """Return the further pairs after which a verdict is expected; None: never, or not known."""
    interval = found.interval
    if found.is_selection or interval is None or width is None:
        return None
    for pairs, alpha in look.plan.after(look.pairs):
        measured = pairs - found.left_out
        is_small = abs(interval.mean) <= width
        is_reachable = is_small or floor_of(measured) * look.family <= alpha
        if measured >= 2 and is_reachable and interval.clears(width, measured):
            return pairs - look.pairs
    return None


def _text(made: Difference, found: _Sample, look: _Look) -> str:
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
        parts.append(_undetermined_text(made, look))
    if found.left_out and not found.is_unmeasured:
        parts.append(
            f"{found.left_out} of {look.pairs} pairs are left out (not measured in "
            f"{found.missing_first} of the first runs, {found.missing_second} of the second)"
        )
    return "; ".join(parts)


def _values_text(made: Difference, found: _Sample) -> str:
    if found.is_unmeasured:
        return "not measured in any run"
    if made.difference is None:
        return "no pair has both values"
    if made.name in IDENTITY_COUNTS:
        bad = [sum(map(bool, side)) for side in (found.first, found.second)]
        sums = [made.number(sum(side)) for side in (found.first, found.second)]
        return f"not tested: {sums[0]} in {bad[0]} of {made.n} runs, {sums[1]} in {bad[1]}"
    if made.low is None:
        return f"{made.number(made.difference)} {made.unit}".rstrip() + " in one pair"
    text = f"{made.change(made.difference)} {made.unit}".rstrip()
    text += f" ({made.change(made.low)} to {made.change(made.high)})"
    if made.p is not None:
        text += f", p {made.p:.2g} (lowest possible {made.p_floor:.2g}), Holm {made.holm_p:.2g}"
    return text


def _undetermined_text(made: Difference, look: _Look) -> str:
    if made.bound is None or made.low is None:
        return "too few values"
    text = f"not decided at the bound of {made.within()}"
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
