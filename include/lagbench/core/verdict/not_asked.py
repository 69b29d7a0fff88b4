"""Leave an SLO out that the kind of consumer cannot have, or that an action made unobservable.

For an action it must be open for nothing but gaps in readings, and each gap must lie inside the
window of an action that hides such readings. A result that passes or fails stays: the gap did not
matter.
"""

from __future__ import annotations

from collections.abc import Iterable

from lagbench.core.measures import NANOSECONDS, Measures
from lagbench.core.measures.evidence import GAP_SECONDS, Hidden
from lagbench.core.scenario import kind_of
from lagbench.core.telemetry import What
from lagbench.core.verdict.slo import SloResult


def not_asked_of_kind(results: Iterable[SloResult], measures: Measures) -> list[SloResult]:
    """Return ``results``; those that this kind of consumer cannot have are not judged."""
    reasons = kind_of(measures.consumer_kind).not_asked
    return [
        result.model_copy(
            update={
                "status": "not_judged",
                "value": None,
                "low": None,
                "high": None,
                "reason": f"not asked: {reasons[result.name]}",
            }
        )
        if result.name in reasons
        else result
        for result in results
    ]


def not_asked(
    result: SloResult, measures: Measures, what: What, gaps: Iterable[tuple[int, int]]
) -> SloResult:
    """Return ``result`` as not judged if it is undetermined by hidden ``gaps`` alone.

    ``gaps``: begin and end (unix ns) of all gaps in the readings of ``what`` that leave it open.
    """
    limit = GAP_SECONDS * NANOSECONDS
    long = [gap for gap in gaps if gap[1] - gap[0] > limit]
    if result.status != "undetermined" or not long:
        return result
    hidden = Hidden(measures.actions)
    actions = [hidden.reading(what, *gap) for gap in long]
    names = list(dict.fromkeys(action.name for action in actions if action is not None))
    if None in actions:
        return result
    reason = f"not asked: {', '.join(names)} hid the readings of {what}; {result.reason}"
    return result.model_copy(update={"status": "not_judged", "reason": reason})
