"""Leave an SLO out that the level of accounting cannot judge, unless the user gave it a limit."""

from __future__ import annotations

from collections.abc import Iterable

from lagbench.core.measures import Measures
from lagbench.core.scenario import Slos, level_of
from lagbench.core.verdict.slo import SloResult, slo_of

_FAILED = "failed"


def of_level(
    results: Iterable[SloResult], measures: Measures, asked: Slos | None = None
) -> list[SloResult]:
    """Return ``results``; those that the level cannot judge have no value.

    Without a limit they are not judged, with one they are undetermined. A limit of ``asked`` on
    failed messages, which without a report of them have no result, gets one.
    """
    known = list(results)
    if measures.accounting_level is None:
        return known
    level = level_of(measures.accounting_level)
    if asked is not None and all(result.name != _FAILED for result in known):
        known.append(slo_of(_FAILED, asked.failed).result("undetermined", None, ""))
    return [
        result.model_copy(
            update={
                "status": "not_judged" if result.status == "not_judged" else "undetermined",
                "value": None,
                "low": None,
                "high": None,
                "reason": f"{level.text} cannot judge it: {level.cannot_judge[result.name]}",
            }
        )
        if result.name in level.cannot_judge
        else result
        for result in known
    ]


def judged_without(results: Iterable[SloResult], measures: Measures) -> list[str]:
    """Return what the verdict names first: the SLOs that the level leaves out; it may be none."""
    if measures.accounting_level is None:
        return []
    known = list(results)
    asked = {result.name for result in known if result.status != "not_judged"}
    level = level_of(measures.accounting_level)
    text = level.judged_without((result.name for result in known), but=asked)
    return [text] if text else []
