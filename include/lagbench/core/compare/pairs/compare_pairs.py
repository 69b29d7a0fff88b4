"""Compare two sides by pairs of runs: intervals, exact tests and three-way verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from lagbench.core.compare.compare import BOUNDS, Bound
from lagbench.core.compare.pairs.difference import Difference, DifferenceVerdict, Pair
from lagbench.core.compare.pairs.difference_text import difference_text
from lagbench.core.compare.pairs.looks import Look, Looks
from lagbench.core.compare.pairs.sample import IDENTITY_COUNTS, Sample
from lagbench.core.compare.pairs.sign_flip import holm, smallest_p
from lagbench.core.measures import NAMED
from lagbench.core.significance import PLANNED_LOOKS, floor_of
from lagbench.errors import WrongInput


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
    samples = [Sample.of(measure, pairs) for measure in NAMED.values()]
    bound_of = {bound.name: bound for bound in bounds if bound.name not in IDENTITY_COUNTS}
    tested = [found for found in samples if found.name in bound_of and found.interval is not None]
    family = [found for found in tested if any(found.differences)]
    adjusted = {found.name: 1.0 for found in tested}  # equal in all pairs: no rejection possible
    adjusted |= dict(zip((f.name for f in family), holm([f.p for f in family]), strict=True))
    look = Look(len(pairs), alpha, len(family), plan)
    return tuple(
        _difference(found, bound_of.get(found.name), adjusted.get(found.name), look)
        for found in samples
    )


def _difference(found: Sample, bound: Bound | None, holm_p: float | None, look: Look) -> Difference:
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
    return made.model_copy(update={"text": difference_text(made, found, look)})


def _verdict(
    found: Sample, width: float | None, bound: Bound | None, holm_p: float | None, look: Look
) -> DifferenceVerdict:
    if bound is None or found.is_unmeasured:
        return "listed"
    interval = found.interval
    if found.is_selection or width is None or interval is None or holm_p is None:
        return "undetermined"
    if interval.is_inside(width):
        return "equivalent"
    if interval.is_beyond(width) and holm_p <= look.alpha:
        return "differs"
    return "undetermined"


def _pairs_needed(found: Sample, width: float | None, look: Look) -> int | None:
    """Return the further pairs after which a verdict is expected; None: never, or not known."""
    interval = found.interval
    if found.is_selection or interval is None or width is None:
        return None
    for pairs, alpha in look.candidates():
        measured = pairs - found.left_out
        is_small = abs(interval.mean) <= width
        is_reachable = is_small or floor_of(measured) * look.family <= alpha
        if measured >= 2 and is_reachable and interval.clears(width, measured):
            return pairs - look.pairs
    return None


def _require_one_seed(pair: Pair) -> None:
    if pair.first.seed != pair.second.seed:
        raise WrongInput(
            where="comparison",
            field=f"pair of {pair.first.run_id} and {pair.second.run_id}: seed",
            value=pair.second.seed,
            allowed=f"{pair.first.seed}, the seed of the first run",
        )
