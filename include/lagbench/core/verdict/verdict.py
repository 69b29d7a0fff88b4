"""Judge a run: SLOs x measures to pass, fail or undetermined, each with its reason.

* Any SLO that fails makes the run ``fail``.
* A run with another load than planned, or with a clock that stepped, is invalid. The verdict gives
  the reason once. Each SLO shows its measured value, and none of them passes or fails by it, except
  for bad messages: those that were found stay found.
* With strangers in the group nothing passes or fails, not even by bad messages: they may be the
  strangers'. If strangers were only counted, and never named, the SLOs on scaling that fail stay
  failed.
* A doubt (``measures/doubts``) leaves each SLO on what it is about undetermined, whether it held or
  not: a policy that was not in force is not blamed, and messages that were lost stay lost.
* Not drained, not stable, an empty log, an accounting that contradicts itself
  (``measures/checks.py``), a doubt, or a measure missing for a judged SLO: ``undetermined``, never
  ``pass``. So is a run without a judged SLO.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from pydantic import Field

from lagbench.core.measures import NAMED, MeasureModel, Measures, reconciliation
from lagbench.core.scenario import Slos, knows_work
from lagbench.core.verdict.accounting_level import judged_without, of_level
from lagbench.core.verdict.not_asked import not_asked_of_kind
from lagbench.core.verdict.slo import SloResult, SloStatus, rests_on
from lagbench.core.verdict.slos_on_accounting import accounting_results, unsettled_end
from lagbench.core.verdict.slos_on_lag import lag_results
from lagbench.core.verdict.slos_on_rebalance import rebalance_results
from lagbench.core.verdict.slos_on_scaling import scaling_results
from lagbench.core.verdict.stranger_reasons import stranger_reasons
from lagbench.errors import ExitCode

__all__ = ["SloResult", "SloStatus", "Verdict", "VerdictStatus", "exit_code", "judge"]

_BY_PODS_CLOCKS = (
    "rebalance_dip_percent",
    "rebalance_area_seconds",
    "rebalance_recovery_seconds",
    "standstill_seconds",
    "time_lag_p95_seconds",
    "time_lag_p99_seconds",
)
"""SLOs that depend on the pods' own stamps: times of work, and owners of partitions."""

VerdictStatus = Literal["pass", "fail", "undetermined"]


class Verdict(MeasureModel):
    """The whole run's verdict.

    ``reasons`` begin with ``judged_without``: what the level of accounting leaves unjudged. The
    others decided it, first ``invalid``: why the run measured something else than planned. Among
    them are ``open_ends``: why the evidence as a whole proves less than it should. A run that fails
    also has them, last.
    ``notes`` do not affect the status; they inform the reader.
    """

    run_id: str
    status: VerdictStatus
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()
    judged_without: tuple[str, ...] = ()
    open_ends: tuple[str, ...] = ()
    slos: tuple[SloResult, ...]
    judged: Mapping[str, str] = Field(default_factory=dict)
    """Digests of the files that it rests on, by name; empty: an older version wrote it."""

    @property
    def deciding(self) -> tuple[str, ...]:
        """The reasons that decided it."""
        return self.reasons[len(self.judged_without) :]

    def is_result(self, measures: Collection[str] | None = None) -> bool:
        """Return whether the run measured what was planned, so that its values can be compared.

        A run that fails did, and one that is undetermined only because values lie too close to
        their limits: to leave it out would leave out the values near the limits, and move the mean.

        :param measures: names of what is compared; None: all. An SLO that is undetermined for lack
            of data matters if it belongs to the same part of ``Measures`` as one of them.
        """
        return not self.why_no_result(measures)

    def why_no_result(self, measures: Collection[str] | None = None) -> tuple[str, ...]:
        """Return why its values cannot be compared (``is_result``); empty: they can."""
        unsure = [slo for slo in self.slos if slo.status == "undetermined"]
        parts = None if measures is None else {NAMED[name].part for name in measures}
        lacking = (slo for slo in unsure if not slo.is_too_close and slo.matters_to(parts))
        reasons = (*self.invalid, *self.open_ends, *(f"{s.title}: {s.reason}" for s in lacking))
        if not reasons and self.status == "undetermined" and not unsure:
            return self.deciding or ("no reason given",)
        return reasons


def judge(measures: Measures, slos: Slos) -> Verdict:
    """Return the verdict of ``measures`` under ``slos``."""
    scaling = [*scaling_results(measures, slos), *rebalance_results(measures, slos)]
    scaling += lag_results(measures, slos)
    scaling = not_asked_of_kind(scaling, measures)
    scaling = [_of_known_clocks(result, measures) for result in scaling]
    scaling = of_level(scaling, measures)
    messages = of_level(accounting_results(measures, slos), measures, slos)
    invalid = measures.validity.reasons
    unsure = [f"{r.title}: {r.reason}" for r in [*scaling, *messages] if r.status == "undetermined"]
    if not measures.validity.is_valid:
        scaling = [_of_another_load(result) for result in scaling]
        messages = [r if r.status == "fail" else _of_another_load(r) for r in messages]
    results = [*scaling, *messages]
    if any(stranger.client_id is not None for stranger in measures.group_strangers):
        results = [_of_another_load(result) for result in results]
    elif measures.group_strangers:
        results = [*scaling, *(_of_another_load(result) for result in messages)]
    results = [_beyond_doubt(result, measures) for result in results]
    failed = [f"{r.title}: {r.reason}" for r in results if r.status == "fail"]
    judged = sum(result.status != "not_judged" for result in results)
    open_ends = [
        *stranger_reasons(measures),
        *(doubt.text for doubt in measures.doubts),
        *_unsettled(measures),
    ]
    if not judged:
        open_ends.append("nothing was judged: no SLO with a limit applies to this load")
    status: VerdictStatus = "pass"
    reasons = [f"all {judged} judged SLOs hold"]
    if failed:
        status, reasons = "fail", [*invalid, *failed, *open_ends]
    elif not measures.validity.is_valid or open_ends or unsure:
        status, reasons = "undetermined", [*invalid, *open_ends, *unsure]
    without = tuple(judged_without(results, measures))
    return Verdict(
        run_id=measures.run_id,
        status=status,
        reasons=(*without, *reasons),
        notes=measures.validity.notes,
        invalid=invalid,
        judged_without=without,
        open_ends=tuple(open_ends),
        slos=tuple(results),
    )


def _unsettled(measures: Measures) -> list[str]:
    """Return why the end of the run proves nothing; an observation may end at any moment."""
    if measures.observation is not None:
        return []
    balance = reconciliation(
        measures.accounting,
        has_work=knows_work(measures.accounting_level),
        is_output=measures.accounting_level == "output",
    )
    return [*unsettled_end(measures), *balance.reasons]


def exit_code(verdict: Verdict) -> ExitCode:
    """Return the exit code of the command line for ``verdict``."""
    return {
        "pass": ExitCode.PASS,
        "fail": ExitCode.SLO_FAILED,
        "undetermined": ExitCode.UNDETERMINED,
    }[verdict.status]


def _of_another_load(result: SloResult) -> SloResult:
    if result.status == "not_judged":
        return result
    return result.model_copy(update={"status": "undetermined"})


def _beyond_doubt(result: SloResult, measures: Measures) -> SloResult:
    """Return ``result``, undetermined if a doubt is about what it rests on."""
    parts = rests_on(result.name)
    codes = [doubt.code for doubt in measures.doubts if parts.intersection(doubt.about)]
    if not codes or result.status == "not_judged":
        return result
    reason = f"{result.reason}; in doubt: {', '.join(dict.fromkeys(codes))}"
    return result.model_copy(update={"status": "undetermined", "reason": reason})


def _of_known_clocks(result: SloResult, measures: Measures) -> SloResult:
    """Return ``result``, undetermined if it depends on an unbounded clock."""
    clocks = measures.reaction.clocks
    pods = () if clocks is None else clocks.unbounded_pods
    if not pods or result.name not in _BY_PODS_CLOCKS:
        return result
    if result.status not in ("pass", "fail"):
        return result.model_copy(update={"is_too_close": False})
    reason = f"{result.reason}; the clocks of {len(pods)} pods are not bounded"
    return result.model_copy(update={"status": "undetermined", "reason": reason})
