"""Judge SLOs on scaling: reaction, flips, baseline, surplus pods."""

from __future__ import annotations

from lagbench.core.measures import Measures, Scaling, moment
from lagbench.core.scenario import Slos
from lagbench.core.verdict.slo import Slo, SloResult, claim_result, not_applicable, slo_of


def scaling_results(measures: Measures, slos: Slos) -> list[SloResult]:
    """Return the SLOs on scaling, in the order of the table."""
    return [
        _reaction(measures, slos),
        _flips(measures, slos),
        _pod_minutes(measures, slos),
        _baseline(measures, slos),
        _surplus(measures, slos),
    ]


def _reaction(measures: Measures, slos: Slos) -> SloResult:
    """Judge the lab's reaction: load step to the first new pod Ready and assigned.

    A pod that was due and did not come is a failure to react. A load step that asked for no pod,
    or that more replicas could not help, reacted in 0 s.
    """
    slo = slo_of("reaction_seconds", slos.reaction_seconds)
    chain = measures.reaction
    if measures.load.spikes == 0:
        if measures.spikes_unknown:
            return slo.result("undetermined", None, measures.spikes_unknown)
        return not_applicable(slo.result("pass", None, "the plan of the load has no spike"))
    result = _of_outcome(slo, measures)
    if result.status == "pass" and chain.unknown_text:
        reason = f"{result.reason}; but {chain.unknown_text}"
        return result.model_copy(update={"status": "undetermined", "reason": reason})
    return result


def _of_outcome(slo: Slo, measures: Measures) -> SloResult:
    chain, of_step = measures.reaction, ""
    if (chain.step_count or 0) > 1:
        of_step = f"load step {chain.step_number} of {chain.step_count}: "
    shown = f"{of_step}{chain.outcome_text}"
    if chain.outcome == "not_due":
        return slo.compare(0.0, f"{shown}: no pod was due")
    if chain.outcome == "did_not_come":
        return slo.result("fail", None, shown)
    if chain.outcome != "reacted" or chain.assigned_seconds is None:
        return slo.result("undetermined", None, shown or "the load step is not known")
    parts = [
        f"{link.name} {link.title} {link.part_seconds:.1f} s"
        for link in chain.links
        if link.part_seconds is not None and link.name != "t8"
    ]
    did = "was Ready and assigned" if measures.spark is None else "had finished a task"
    reason = f"{of_step}{chain.pod} {did}; {', '.join(parts)}"
    if chain.clocks is not None and not chain.clocks.is_one_clock:
        reason = f"{reason}; {chain.clocks.text}"
    return slo.judge(measures, reason, unbounded="a clock of these stamps is not bounded")


def _flips(measures: Measures, slos: Slos) -> SloResult:
    slo = slo_of("flips", slos.flips)
    scaling = measures.scaling
    if scaling.max_replicas is None:
        return slo.result("undetermined", None, "there is no sample of the replicas")
    reason = f"replica changes: {scaling.change_count}, reversals: {scaling.reversals}"
    flips = [change for change in scaling.changes if change.is_flip]
    if flips:
        first = flips[0]
        reason += (
            f"; first flip {moment(measures, first.at)}: {first.replicas_before} to"
            f" {first.replicas_after} by {first.by}"
        )
    if flips and scaling.self_made_flips is not None:
        reason += f"; {scaling.self_made_flips} of {scaling.flips} flips are self-made"
    if scaling.gaps_text and (slo.limit is None or scaling.flips <= slo.limit):
        return slo.result("undetermined", scaling.flips, f"{reason}; {scaling.gaps_text}")
    is_one_above = slo.limit is not None and slo.limit < scaling.flips <= slo.limit + 1
    if measures.spikes_unknown and is_one_above:  # one of them may be the return from a spike
        return slo.result("undetermined", scaling.flips, f"{reason}; {measures.spikes_unknown}")
    return slo.judge(measures, reason)


def _pod_minutes(measures: Measures, slos: Slos) -> SloResult:
    slo, scaling = slo_of("pod_minutes", slos.pod_minutes), measures.scaling
    if scaling.pod_minutes is None:
        why = scaling.unwatched_text or "the pods' timelines are not known"
        least = scaling.seen_pod_minutes
        if least is not None and slo.limit is not None and least > slo.limit:
            return slo.result("fail", least, f"the pods that were seen took this; {why}")
        return slo.result("undetermined", None, why)
    reason = f"at most {scaling.max_replicas} replicas at a time"
    if scaling.gaps_text and (slo.limit is None or scaling.pod_minutes <= slo.limit):
        return slo.result("undetermined", scaling.pod_minutes, f"{reason}; {scaling.gaps_text}")
    return slo.judge(measures, reason)


def _baseline(measures: Measures, slos: Slos) -> SloResult:
    result = claim_result(
        "baseline_at_floor",
        "Baseline at the floor",
        is_judged=slos.baseline_at_floor,
        holds=measures.scaling.baseline_at_floor,
        reason=measures.scaling.baseline_text,
    )
    if result.status == "fail" and measures.spikes_unknown:
        reason = f"{result.reason}; {measures.spikes_unknown}"
        return result.model_copy(update={"status": "undetermined", "reason": reason})
    return result if measures.scaling.has_baseline else not_applicable(result)


def _surplus(measures: Measures, slos: Slos) -> SloResult:
    """Judge the pods beyond the partitions; their absence is proven, or not known."""
    scaling = measures.scaling
    result = claim_result(
        "surplus_pods_idle",
        "Surplus pods idle",
        is_judged=slos.surplus_pods_idle,
        holds=scaling.surplus_pods_idle,
        reason=scaling.surplus_text,
    )
    if result.status == "not_judged":
        return result
    shown, counted = scaling.max_members, scaling.max_group_members
    if shown is None or _beyond(scaling.members_beyond, shown, scaling) > 0:
        return result
    unsure = ""
    if counted is not None and _beyond(scaling.group_members_beyond, counted, scaling) > 0:
        unsure = f"the broker counted {counted} members, the pods' own records show {shown}"
    elif not _is_within_partitions(scaling):
        unsure = scaling.gaps_text or "there is no sample of the replicas"
    if unsure:
        reason = f"{scaling.surplus_text}; {unsure}"
        return result.model_copy(update={"status": "undetermined", "reason": reason})
    return not_applicable(result)


def _is_within_partitions(scaling: Scaling) -> bool:
    """Return whether the desired replicas provably never exceeded the partitions."""
    if scaling.ceiling_replicas is not None and scaling.ceiling_replicas <= scaling.partitions:
        return True
    if scaling.max_replicas is None or scaling.gaps_text:
        return False
    return _beyond(scaling.replicas_beyond, scaling.max_replicas, scaling) <= 0


def _beyond(found: int | None, most: int, scaling: Scaling) -> int:
    """Return the most above the partitions of an instant; ``most`` decides where it is missing."""
    return most - scaling.partitions if found is None else found
