"""The verdict: SLOs x measures to pass, fail or undetermined, each with its reason.

* Any SLO that fails makes the run ``fail``.
* A run whose generator fell behind measured another load: its scaling and lag SLOs are
  ``undetermined``, both ways. Bad messages that were found stay found: they fail.
* Not drained, not stable, an accounting that contradicts itself (``lagbench.core.checks``), or a
  measure missing for a judged SLO: ``undetermined``, never ``pass``.
"""

from __future__ import annotations

from typing import Literal

from lagbench.core.checks import reconciliation
from lagbench.core.measure_model import MeasureModel
from lagbench.core.measures import Measures
from lagbench.core.scenario import Slos
from lagbench.core.slo_accounting import accounting_results, unsettled_end
from lagbench.core.slo_lag import lag_results
from lagbench.core.slo_rebalance import rebalance_results
from lagbench.core.slo_result import SloResult, SloStatus
from lagbench.core.slo_scaling import scaling_results
from lagbench.errors import ExitCode

__all__ = ["SloResult", "SloStatus", "Verdict", "VerdictStatus", "exit_code", "judge"]

VerdictStatus = Literal["pass", "fail", "undetermined"]


class Verdict(MeasureModel):
    """The whole run's verdict.

    ``reasons`` are those that decided it; ``notes`` decide nothing, but say what to know of it.
    """

    run_id: str
    status: VerdictStatus
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    slos: tuple[SloResult, ...]


def judge(measures: Measures, slos: Slos) -> Verdict:
    """Return the verdict of ``measures`` under ``slos``."""
    results = [*scaling_results(measures, slos), *rebalance_results(measures, slos)]
    results += lag_results(measures, slos)
    if not measures.validity.is_valid:
        results = [_of_another_load(result, measures) for result in results]
    results += accounting_results(measures, slos)
    failed = [f"{r.title}: {r.reason}" for r in results if r.status == "fail"]
    open_ends = [
        *measures.validity.reasons,
        *unsettled_end(measures),
        *reconciliation(measures.accounting).reasons,
    ]
    unsure = [f"{r.title}: {r.reason}" for r in results if r.status == "undetermined"]
    judged = sum(result.status != "not_judged" for result in results)
    status: VerdictStatus = "pass"
    reasons = [f"all {judged} judged SLOs hold"]
    if failed:
        status, reasons = "fail", failed
    elif open_ends or unsure:
        status, reasons = "undetermined", [*open_ends, *unsure]
    return Verdict(
        run_id=measures.run_id,
        status=status,
        reasons=tuple(reasons),
        notes=measures.validity.notes,
        slos=tuple(results),
    )


def exit_code(verdict: Verdict) -> ExitCode:
    """Return what the command line answers for ``verdict``."""
    return {
        "pass": ExitCode.PASS,
        "fail": ExitCode.SLO_FAILED,
        "undetermined": ExitCode.UNDETERMINED,
    }[verdict.status]


def _of_another_load(result: SloResult, measures: Measures) -> SloResult:
    if result.status == "not_judged":
        return result
    why = "; ".join(measures.validity.reasons)
    update = {"status": "undetermined", "reason": f"{why} (measured: {result.reason})"}
    return result.model_copy(update=update)
