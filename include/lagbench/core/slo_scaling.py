"""SLOs on scaling: reaction, flips, baseline, surplus pods."""

from __future__ import annotations

from lagbench.core.measures import Measures
from lagbench.core.scenario import Slos
from lagbench.core.slo_result import Slo, SloResult, claim_result, moment, not_applicable


def scaling_results(measures: Measures, slos: Slos) -> list[SloResult]:
    """Return the SLOs on scaling, in the order of the table."""
    return [
        _reaction(measures, slos),
        _flips(measures, slos),
        _baseline(measures, slos),
        _surplus(measures, slos),
    ]


def _reaction(measures: Measures, slos: Slos) -> SloResult:
    """Judge the lab's reaction: load step to the first new pod Ready and assigned.

    Lag that crossed the threshold without any pod being added is a failure to react; lag that
    was seen throughout and never crossed asked for nothing.
    """
    slo = Slo("reaction_seconds", "Scale-out reaction", slos.reaction_seconds, "s")
    chain = measures.reaction
    if measures.load.first_spike_started_at is None:
        return not_applicable(slo.result("pass", None, "the load had no step"))
    if chain.assigned_seconds is not None:
        parts = [
            f"{link.name} {link.title} {link.part_seconds:.1f} s"
            for link in chain.links
            if link.part_seconds is not None and link.name != "t8"
        ]
        reason = f"{chain.pod} was Ready and assigned; {', '.join(parts)}"
        if chain.clocks is not None and not chain.clocks.is_one_clock:
            reason = f"{reason}; {chain.clocks.text}"
        return slo.compare(chain.assigned_seconds, reason)
    if chain.pod is not None:
        return slo.result("undetermined", None, f"{chain.pod} was created, but {chain.reason}")
    if chain.is_threshold_crossed:
        crossed_at = next(link.at for link in chain.links if link.name == "t1")
        reason = (
            f"total lag crossed {chain.threshold_records:g} ({chain.threshold_text})"
            f" {moment(measures, crossed_at)}, but no new pod became Ready"
        )
        return slo.result("fail", None, reason)
    if chain.is_threshold_crossed is False:
        reason = f"total lag never crossed {chain.threshold_records:g}, so no pod was due"
        return not_applicable(slo.result("pass", None, reason))
    why = chain.threshold_text
    if chain.threshold_records is not None:
        why = next(link.note for link in chain.links if link.name == "t1")
    reason = f"no pod was added and it is not known whether one was due: {why}"
    return slo.result("undetermined", None, reason)


def _flips(measures: Measures, slos: Slos) -> SloResult:
    slo = Slo("flips", "Flapping", slos.flips, "flips")
    scaling = measures.scaling
    if scaling.max_replicas is None:
        return slo.result("undetermined", None, "replicas were never seen")
    reason = f"replica changes: {scaling.change_count}, reversals: {scaling.reversals}"
    flips = [change for change in scaling.changes if change.is_flip]
    if flips:
        first = flips[0]
        reason += (
            f"; first flip {moment(measures, first.at)}: {first.replicas_before} to"
            f" {first.replicas_after} by {first.by}"
        )
    if scaling.unseen_text and (slo.limit is None or scaling.flips <= slo.limit):
        return slo.result("undetermined", scaling.flips, f"{reason}; {scaling.unseen_text}")
    return slo.compare(scaling.flips, reason)


def _baseline(measures: Measures, slos: Slos) -> SloResult:
    return claim_result(
        "baseline_at_floor",
        "Baseline at the floor",
        is_judged=slos.baseline_at_floor,
        holds=measures.scaling.baseline_at_floor,
        reason=measures.scaling.baseline_text,
    )


def _surplus(measures: Measures, slos: Slos) -> SloResult:
    scaling = measures.scaling
    result = claim_result(
        "surplus_pods_idle",
        "Surplus pods idle",
        is_judged=slos.surplus_pods_idle,
        holds=scaling.surplus_pods_idle,
        reason=scaling.surplus_text,
    )
    most = scaling.max_members
    return not_applicable(result) if most is not None and most <= scaling.partitions else result
