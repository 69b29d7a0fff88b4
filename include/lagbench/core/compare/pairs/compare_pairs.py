"""Compare two sides by pairs of runs: intervals, exact tests and three-way verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from lagbench.core.compare.compare import BOUNDS, Bound
from lagbench.core.compare.pairs.difference import Difference, DifferenceVerdict, Pair
from lagbench.core.compare.pairs.interval import Interval
from lagbench.core.compare.pairs.looks import PLANNED_LOOKS, Looks
from lagbench.core.compare.pairs.sign_flip import (
    MOST_PAIRS,
    floor_of,
    holm,
    sign_flip_p,
    smallest_p,
)
from lagbench.core.measures import NAMED, Measures, NamedMeasure
from lagbench.core.measures.accounting import Accounting
from lagbench.errors import WrongInput

IDENTITY_COUNTS = frozenset(measure.name for measure in Accounting.named)
"""Counts of messages by identity: one is a failure, so they are listed and never tested."""


def compare_pairs(
    pairs: Sequence[Pair],
    bounds: Sequence[Bound] = BOUNDS,
    looks: Sequence[int] = PLANNED_LOOKS,
) -> tuple[Difference, ...]:
    """Return the difference of each named measure, in the order of the registry.

    Measures in ``bounds`` are tested. Those that differ in any pair are one family for Holm's
    correction: fewer of them need fewer pairs. (A measure that is equal in all pairs cannot be
    rejected, whatever the signs, so it needs no share of alpha.) A bound's relative part is of the
    first side's mean. The other measures are listed.

    :param looks: the numbers of pairs at which the comparison was planned to be tested.
    :raises WrongInput: the number of pairs is not a planned look, or a pair has two seeds.
    """
    plan = Looks.planned(looks)
    alpha = plan.alpha_at(len(pairs))
    for pair in pairs:
        _require_one_seed(pair)
    samples = [_Sample.of(measure, pairs) for measure in NAMED.values()]
    bound_of = {bound.name: bound for bound in bounds if bound.name not in IDENTITY_COUNTS}
    tested = [found for found in samples if found.name in bound_of and found.interval is not None]
    family = [found for found in tested if any(found.differences)]
    adjusted = {found.name: 1.0 for found in tested}  # equal in all pairs: no rejection possible
    adjusted |= dict(zip((f.name for f in family), holm([f.p for f in family]), strict=True))
    look = _Look(len(pairs), alpha, len(family), plan)
    return tuple(
        _difference(found, bound_of.get(found.name), adjusted.get(found.name), look)
        for found in samples
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """One look of the plan: its pairs, its alpha, and the number of measures that it tests."""

    pairs: int
    alpha: float
    family: int
    plan: Looks

    def candidates(self) -> list[tuple[int, float]]:
        """Return later numbers of pairs, each with its alpha: the plan's, then plans of one look.

        A plan of one look is for a new set of pairs: after the last look this one is closed.
        """
        planned = [(later, self.plan.alpha_at(later)) for later in self.plan.later(self.pairs)]
        last = self.plan.pairs[-1]
        return planned + [(n, self.plan.alpha) for n in range(last + 1, MOST_PAIRS + 1)]


@dataclass(frozen=True, slots=True)
class _Sample:
    """The values of one measure: of the pairs that have both, and how often one is missing."""

    measure: NamedMeasure[Measures]
    first: tuple[float, ...]
    second: tuple[float, ...]
    missing_first: int
    missing_second: int
    left_out: int

    @classmethod
    def of(cls, measure: NamedMeasure[Measures], pairs: Sequence[Pair]) -> _Sample:
        values = [(measure.read(pair.first), measure.read(pair.second)) for pair in pairs]
        known = [(a, b) for a, b in values if a is not None and b is not None]
        return cls(
            measure,
            tuple(float(a) for a, _ in known),
            tuple(float(b) for _, b in known),
            missing_first=sum(a is None for a, _ in values),
            missing_second=sum(b is None for _, b in values),
            left_out=len(values) - len(known),
        )

    @property
    def name(self) -> str:
        return self.measure.name

    @property
    def differences(self) -> list[float]:
        return [after - before for before, after in zip(self.first, self.second, strict=True)]

    @property
    def interval(self) -> Interval | None:
        return Interval.of(self.differences)

    @property
    def p(self) -> float:
        return sign_flip_p(self.differences)

    @property
    def is_unmeasured(self) -> bool:
        pairs = len(self.first) + self.left_out
        return self.missing_first == self.missing_second == pairs


def _difference(
    found: _Sample, bound: Bound | None, holm_p: float | None, look: _Look
) -> Difference:
    interval, differences = found.interval, found.differences
    width = None if bound is None or not found.first else bound.width(fmean(found.first))
    verdict = _verdict(found, width, bound, holm_p, look)
    is_tested = holm_p is not None
    needed = _pairs_needed(found, width, look) if verdict == "undetermined" else None
    made = Difference(
        name=found.name,
        title=found.measure.title,
        unit=found.measure.unit,
        n=len(differences),
        left_out=found.left_out,
        mean_first=fmean(found.first) if found.first else None,
        mean_second=fmean(found.second) if found.second else None,
        difference=fmean(differences) if differences else None,
        low=None if interval is None or found.name in IDENTITY_COUNTS else interval.low,
        high=None if interval is None or found.name in IDENTITY_COUNTS else interval.high,
        p=found.p if is_tested else None,
        p_floor=smallest_p(differences) if is_tested else None,
        holm_p=holm_p,
        alpha=look.alpha if is_tested else None,
        bound=width,
        verdict=verdict,
        pairs_needed=needed,
        text="",
    )
    return made.model_copy(update={"text": _text(made, found, look)})


def _verdict(
    found: _Sample, width: float | None, bound: Bound | None, holm_p: float | None, look: _Look
) -> DifferenceVerdict:
    if bound is None or found.is_unmeasured:
        return "listed"
    interval = found.interval
    if width is None or interval is None or holm_p is None:
        return "undetermined"
    if interval.is_inside(width):
        return "equivalent"
    if interval.is_beyond(width) and holm_p <= look.alpha:
        return "differs"
    return "undetermined"


def _pairs_needed(found: _Sample, width: float | None, look: _Look) -> int | None:
    """Return the further pairs after which a verdict is expected; None: never, or not known."""
    interval = found.interval
    if interval is None or width is None:
        return None
    for pairs, alpha in look.candidates():
        measured = pairs - found.left_out
        is_small = abs(interval.mean) <= width
        is_reachable = is_small or floor_of(measured) * look.family <= alpha
        if measured >= 2 and is_reachable and interval.clears(width, measured):
            return pairs - look.pairs
    return None


def _text(made: Difference, found: _Sample, look: _Look) -> str:
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


def _undetermined_text(made: Difference, look: _Look) -> str:
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


def _require_one_seed(pair: Pair) -> None:
    if pair.first.seed != pair.second.seed:
        raise WrongInput(
            where="comparison",
            field=f"pair of {pair.first.run_id} and {pair.second.run_id}: seed",
            value=pair.second.seed,
            allowed=f"{pair.first.seed}, the seed of the first run",
        )
