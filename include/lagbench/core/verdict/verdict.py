"""Judge a run: SLOs x measures to pass, fail or undetermined, each with its reason.

* Any SLO that fails makes the run ``fail``.
* A run with another load than planned, or with a clock that stepped, is invalid. The verdict gives
  the reason once. Each SLO shows its measured value, and none of them passes or fails by it, except
  for bad messages: those that were found stay found.
* With strangers in the group nothing passes or fails, not even by bad messages: they may be the
  strangers'. If strangers were only counted, and never named, the SLOs on scaling that fail stay
  failed.
* A limit of level ``warn`` neither fails the run nor leaves it undetermined.
* A doubt (``measures/doubts``) leaves each SLO on what it is about undetermined, whether it held or
  not: a policy that was not in force is not blamed, and messages that were lost stay lost.
* Not drained, not stable, an empty log, an accounting that contradicts itself
  (``measures/checks.py``), a doubt, or a measure missing for a judged SLO: ``undetermined``, never
  ``pass``. So is a rehearsal without a judged SLO, and one without the result of a check
  (``CHECKS``). An observation without a limit that can fail it only reports: ``not_judged``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from lagbench.core.measures.checks import Check, reconciliation
from lagbench.core.measures.evidence.group_strangers import GroupStranger
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import MeasureModel
from lagbench.core.scenario.consumer_kinds import kind_of, knows_work, level_of
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.verdict.accounting_slos import unsettled_end
from lagbench.core.verdict.slo import SECOND_GROUP_PREFIX, SloResult, slo_of
from lagbench.core.verdict.slos import RESTS_ON, slo_results
from lagbench.errors import ExitCode

NAMED_STRANGERS = 5
CHECKS = ("rebalance_count_check", "reconcile_check")
"""The tasks of a run whose results its verdict reads."""
VerdictStatus = Literal["pass", "fail", "undetermined", "not_judged"]
"""``not_judged``: an observation without a limit that can fail it, which only reports."""


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
    def warnings(self) -> tuple[str, ...]:
        """The broken and the unknown limits that only warn, with their reasons."""
        warned = (slo for slo in self.slos if slo.is_warning)
        return tuple(f"{slo.title}: {slo.reason}" for slo in warned)

    @property
    def known(self) -> tuple[SloResult, ...]:
        """The SLOs that hold or are broken."""
        return tuple(s for s in self.slos if s.status not in ("undetermined", "not_judged"))

    @property
    def is_partial(self) -> bool:
        """True: it passed, and most SLOs were not judged."""
        return self.status == "pass" and len(self.known) * 2 < len(self.slos)

    @property
    def label(self) -> str:
        """The status, as a reader sees it."""
        return f"{self.status} (partial)" if self.is_partial else self.status.replace("_", " ")

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
        unsure = [
            slo
            for slo in self.slos
            if slo.leaves_open or (measures is not None and slo.status == "undetermined")
        ]
        parts = None if measures is None else {NAMED[name].part for name in measures}
        lacking = (slo for slo in unsure if not slo.is_too_close and slo.matters_to(parts))
        reasons = (*self.invalid, *self.open_ends, *(f"{s.title}: {s.reason}" for s in lacking))
        if not reasons and self.status == "undetermined" and not unsure:
            return self.deciding or ("no reason given",)
        return reasons


def judge(measures: Measures, slos: Slos) -> Verdict:
    """Return the verdict of ``measures`` under ``slos``."""
    own = _of_level(
        [_of_kind(one, measures) for one in slo_results(measures, slos)], measures, slos
    )
    own = [one.as_warning() if one.name in slos.warned else one for one in own]
    unsure = [f"{r.title}: {r.reason}" for r in own if r.leaves_open]
    results = [_of_the_whole_run(result, measures) for result in own]
    failed = [f"{r.title}: {r.reason}" for r in results if r.status == "fail"]
    judged = sum(one.status != "not_judged" and one.level == "fail" for one in results)
    invalid = measures.validity.reasons
    open_ends = [
        *stranger_reasons(measures),
        *(doubt.text for doubt in measures.doubts),
        *_unsettled(measures),
    ]
    asked = [one for one in results if one.is_asked]
    only_warns = all(one.level == "warn" for one in asked)
    is_report = measures.observation is not None and only_warns
    nothing = "nothing was judged: no SLO with a limit applies to this load"
    if asked and only_warns:
        nothing = "nothing was judged: the limits only warn"
    elif is_report:
        nothing = "nothing was judged: no limit was set, for example --slo drain_seconds=60"
    if not judged and not is_report:
        open_ends.append(nothing)
    status: VerdictStatus = "pass"
    reasons = [f"all {judged} judged SLOs hold"]
    if failed:
        status, reasons = "fail", [*invalid, *failed, *open_ends]
    elif not measures.validity.is_valid or open_ends or unsure:
        status, reasons = "undetermined", [*invalid, *open_ends, *unsure]
    without = _judged_without(results, measures)
    if is_report:
        status, reasons, without = "not_judged", [nothing, *invalid, *open_ends], ()
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


def exit_code(verdict: Verdict) -> ExitCode:
    """Return the exit code of the command line for ``verdict``."""
    return {
        "pass": ExitCode.PASS,
        "fail": ExitCode.SLO_FAILED,
        "undetermined": ExitCode.UNDETERMINED,
        "not_judged": ExitCode.PASS,
    }[verdict.status]


def _of_kind(result: SloResult, measures: Measures) -> SloResult:
    """Return ``result`` as far as this kind of consumer and its clocks can show it."""
    reasons, rests_on = kind_of(measures.consumer_kind).not_asked, RESTS_ON[result.name]
    if result.name in reasons:
        return result.without_value("not_judged", f"not asked: {reasons[result.name]}")
    if measures.work_unknown and "work" in rests_on:
        result = result.opened(measures.work_unknown)
    clocks = measures.reaction.clocks
    if clocks is not None and clocks.unbounded_pods and rests_on & {"work", "latency"}:
        pods = len(clocks.unbounded_pods)
        return result.opened(f"the clocks of {pods} pods are not bounded")
    return result


def _of_level(results: list[SloResult], measures: Measures, slos: Slos) -> list[SloResult]:
    """Return ``results`` without what the level of accounting cannot judge.

    Without a limit they are not judged, with one they are undetermined. A limit on failed messages,
    which without a report of them have no result, gets one.
    """
    if measures.accounting_level is None:
        return results
    level = level_of(measures.accounting_level)
    if all(result.name != "failed" for result in results):
        results = [*results, slo_of("failed", slos.failed).unknown("")]
    return [
        result.without_value(
            "not_judged" if result.status == "not_judged" else "undetermined",
            f"{level.text} cannot judge it: {level.cannot_judge[result.name]}",
        )
        if result.name in level.cannot_judge
        else result
        for result in results
    ]


def _judged_without(results: list[SloResult], measures: Measures) -> tuple[str, ...]:
    """Return what the verdict names first: the SLOs that the level of accounting leaves out."""
    if measures.accounting_level is None:
        return ()
    asked = {result.name for result in results if result.status != "not_judged"}
    names = (result.name for result in results)
    text = level_of(measures.accounting_level).judged_without(names, but=asked)
    return (text,) if text else ()


def _of_the_whole_run(result: SloResult, measures: Measures) -> SloResult:
    """Return ``result``, undetermined if the run as a whole does not show what it rests on."""
    rests_on, strangers = RESTS_ON[result.name], measures.group_strangers
    is_of_messages = "messages" in rests_on
    is_found = is_of_messages and result.status in ("fail", "warn")
    codes = [doubt.code for doubt in measures.doubts if rests_on.intersection(doubt.about)]
    is_open = (
        (not measures.validity.is_valid and not is_found)
        or any(stranger.client_id is not None for stranger in strangers)
        or (strangers and is_of_messages)
        or codes
    )
    if result.status == "not_judged" or not is_open:
        return result
    reason = result.reason
    if codes:
        reason = f"{reason}; in doubt: {', '.join(dict.fromkeys(codes))}"
    return result.model_copy(update={"status": "undetermined", "reason": reason})


def _unsettled(measures: Measures) -> list[str]:
    """Return why the end of the run proves nothing; an observation may end at any moment."""
    if measures.observation is not None:
        return []
    return [*unsettled_end(measures), *balance_of(measures).reasons]


def balance_of(measures: Measures) -> Check:
    """Check that every acknowledged message was processed exactly once, as far as it is known."""
    level = measures.accounting_level
    is_output = level == "output"
    return reconciliation(measures.accounting, has_work=knows_work(level), is_output=is_output)


def stranger_reasons(measures: Measures) -> list[str]:
    """Return why others in the group leave the run undetermined; empty when it was its own.

    Their work is in no ledger, and no pod of the run will process the messages that they committed:
    anything lost, repeated or slow may be theirs.
    """
    strangers = measures.group_strangers
    reasons = [_stranger_text(one, measures) for one in strangers[:NAMED_STRANGERS]]
    if len(strangers) > NAMED_STRANGERS:
        left = len(strangers) - NAMED_STRANGERS
        reasons.append(f"{left} more members that are not pods of this run")
    if measures.group_gaps:
        longest = max(measures.group_gaps, key=lambda gap: gap.gap_seconds)
        more = len(measures.group_gaps) - 1
        reasons.append(
            f"the members of the group are unknown for {longest.gap_seconds:.1f} s from"
            f" {measures.moment(longest.started_at).removeprefix('at ')}: {longest.reason}"
            + (f", and in {more} more gaps" if more else "")
        )
    return reasons


def _stranger_text(one: GroupStranger, measures: Measures) -> str:
    span = f"{one.seen_seconds:.1f} s"
    if one.precision_seconds:
        span = f"{one.seen_seconds:.1f} to {one.seen_seconds + one.precision_seconds:.1f} s"
    when = f"for {span} from {measures.moment(one.first_seen_at).removeprefix('at ')}"
    held = ", ".join(map(str, one.partitions))
    held = held and f"partition{'s' * (len(one.partitions) > 1)} {held}"
    if one.client_id is None:
        what = "1 member" if one.members == 1 else f"{one.members} members"
        unowned = f"; no pod owned {held} then" if held else ""
        return f"{what} of the group more than the pods of this run, {when}{unowned}"
    return (
        f"a member that is not a pod of this run: client {one.client_id} on host {one.host} held"
        f" {held or 'no partition'}, in the group {when}"
    )


def with_checks(verdict: Verdict, found: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """Return the verdict with what the tasks that check a run have found, by their names.

    Without the result of each of them nothing passes, nor if the accounting that was checked has a
    reason that the measures do not have: then they are of another one. Bad messages, and a
    rebalance without a scaling, are judged by the SLOs, within their limits.
    """
    open_ends = [f"{name} has no result: it did not run" for name in CHECKS if name not in found]
    reasons = found.get("reconcile_check", {}).get("reasons", ())
    open_ends += [reason for reason in reasons if reason not in verdict.open_ends]
    if not open_ends:
        return verdict
    is_pass = verdict.status == "pass"
    kept = verdict.judged_without if is_pass else verdict.reasons
    return verdict.model_copy(
        update={
            "status": "undetermined" if is_pass else verdict.status,
            "reasons": (*kept, *open_ends),
            "open_ends": (*verdict.open_ends, *open_ends),
        }
    )


def with_second_group(first: Verdict, second: Verdict) -> Verdict:
    """Return the verdict of a run with two groups; what is of the second one names it.

    The run fails if one group fails. It is undetermined if one group is and none fails.
    """
    states = (first.status, second.status)
    status: VerdictStatus = "pass"
    if set(states) != {"pass"}:
        status = "fail" if "fail" in states else "undetermined"
    # What decided comes first; a group that passes gives no reason for a run that does not.
    deciding = [
        reason
        for group, reasons in ((first, first.reasons), (second, _named(second.reasons)))
        for reason in reasons
        if group.status != "pass" or status == "pass"
    ]
    others = tuple(
        slo.model_copy(
            update={
                "name": f"{SECOND_GROUP_PREFIX}{slo.name}",
                "title": f"Second group: {slo.title}",
            }
        )
        for slo in second.slos
    )
    # Both groups get the load of the run: what is wrong with it is one reason.
    also_invalid = [reason for reason in second.invalid if reason not in first.invalid]
    invalid = (*first.invalid, *_named(also_invalid))
    known = {*invalid, *_named(second.invalid)}
    return first.model_copy(
        update={
            "status": status,
            "reasons": (*invalid, *(reason for reason in deciding if reason not in known)),
            "notes": (*first.notes, *_named(second.notes)),
            "invalid": invalid,
            "open_ends": (*first.open_ends, *_named(second.open_ends)),
            "slos": (*first.slos, *others),
        }
    )


def _named(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"second group: {text}" for text in texts)
