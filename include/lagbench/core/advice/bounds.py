"""Bound every policy without a search: by arithmetic, and by one simulation of every pod.

The least time lag and drain of any policy are those of the group that has a pod for each partition
all the time: no other has more capacity or fewer rebalances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.advice.job import KEPT, Place, evaluate_job, new_job
from lagbench.core.advice.model import Bound, BoundName
from lagbench.core.advice.question import Question
from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.actions import rebalance_protocol
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_start import mean_start_seconds
from lagbench.core.simulation.plan import Plan, plan_cell

_LAG_SLOS = ("drain_seconds", "time_lag_p99_seconds")
"""Their least value is that of the group with every pod."""


def bounds_of(question: Question, every_pod: Mapping[str, Any]) -> list[Bound]:
    """Return the bounds of each scenario; ``every_pod``: the policy that always has them all."""
    found: list[Bound] = []
    for scenario, place in zip(question.scenarios, question.places.values(), strict=True):
        policy = Policy.read(every_pod, where="every pod")
        plan = plan_cell(scenario, policy)
        found += _of_load(question, scenario, plan)
        found += _of_every_pod(question, scenario, place, every_pod, plan)
        found.append(_of_reaction(question, scenario))
        found += _of_present(question, scenario)
    return found


def _of_load(question: Question, scenario: Scenario, plan: Plan) -> Iterator[Bound]:
    needed, rate, most = plan.pods_needed_at_base, plan.pod_rate, question.most_replicas
    text = f"the base rate of {plan.base_rate:,.0f}/s needs {_pods(needed)} of {rate:,.0f}/s"
    if needed > most:
        text += f", and there are at most {most}"
    title = "Fewest pods at the base rate, pods"
    yield _bound(scenario, "floor", title, needed, text, is_broken=needed > most)
    text = (
        f"{scenario.partitions} partitions feed no more pods; the hottest gets "
        f"{plan.hottest_share:.1%}, and one pod reads it, so no policy keeps up with more than "
        f"{rate / plan.hottest_share:,.0f}/s"
    )
    yield _bound(scenario, "ceiling", "Most useful pods, pods", scenario.partitions, text)
    over = plan.hottest_rate - rate
    if over > 0:
        text = (
            f"partition {plan.hottest_partition} gets {plan.hottest_rate:,.0f}/s at the peak, "
            f"{over:,.0f}/s more than its one pod does, under any policy"
        )
        title = "Growth of the hottest partition's lag at the peak, messages/s"
        yield _bound(scenario, "hottest_partition", title, over, text)


def _of_every_pod(
    question: Question, scenario: Scenario, place: Place, every_pod: Mapping[str, Any], plan: Plan
) -> Iterator[Bound]:
    """Yield the least values of any policy; even they may break the SLO."""
    asked = [slo for slo in question.slos if slo.name in _LAG_SLOS]
    row = evaluate_job(new_job("every pod", every_pod, place, range(1))).rows[0] if asked else ()
    # With fewer pods than partitions it matters which pod shares the hottest one: no proof.
    is_every = plan.max_replicas >= scenario.partitions
    for slo in asked:
        if slo.name == "drain_seconds" and not plan.spikes:
            continue
        least, error = row[KEPT.index(slo.name)], question.error_of(slo.name)
        low = least if error is None or least is None else error.interval(least)[0]
        pods = f"{_pods(plan.max_replicas)} of {plan.pod_rate:,.0f}/s each, all the time"
        text = f"{slo.text(least)} even with {pods}"
        if least is None:
            text = f"not reached within {place.environment.tail_seconds:,.0f} s even with {pods}"
        of = "least of any policy" if is_every else "with every pod"
        is_broken = is_every and (low is None or low > slo.limit)
        if is_broken:
            text += f": no policy holds {slo.slo.threshold}; {_cause(scenario, plan)}"
        title = f"{slo.slo.title}, {of}, {slo.slo.unit}"
        yield _bound(scenario, "least_value", title, least, text, is_broken=is_broken)


def _cause(scenario: Scenario, plan: Plan) -> str:
    """Say what would have to change: skew, partitions or pods."""
    if plan.pods_needed_at_peak > scenario.partitions:
        return (
            f"the peak of {plan.peak_rate:,.0f}/s needs {plan.pods_needed_at_peak} pods, and "
            f"{scenario.partitions} partitions feed no more: more partitions, or faster pods"
        )
    if plan.is_skew_limited:
        return (
            f"partition {plan.hottest_partition} gets {plan.hottest_share:.1%}, "
            f"{plan.hottest_rate:,.0f}/s at the peak, and one pod does {plan.pod_rate:,.0f}/s: "
            "spread its keys, or make a pod faster"
        )
    return f"a pod does {plan.pod_rate:,.0f}/s: it must be faster"


def _of_reaction(question: Question, scenario: Scenario) -> Bound:
    around = question.environment
    start = around.start_up_seconds
    start = mean_start_seconds(scenario.consumer) if start is None else start
    protocol = rebalance_protocol(scenario.consumer.balancer) or "eager"
    sync, join = HPA_SYNC_SECONDS / 2, sum(around.handovers[protocol].joined) / 2
    text = (
        f"half a sync of the HPA {sync:g} s, the start of a pod {start:g} s, its first partition "
        f"{join:.2g} s; only pods that are there before the load are faster"
    )
    title = "Reaction of a policy that adds pods, on average at least, s"
    return _bound(scenario, "reaction", title, sync + start + join, text)


def _of_present(question: Question, scenario: Scenario) -> Iterator[Bound]:
    if question.present is None:
        return
    plan = plan_cell(scenario, question.present)
    if plan.loop_gain is None or plan.standing_lag_seconds is None:
        return
    gain, standing = plan.loop_gain, plan.standing_lag_seconds
    text = f"between floor and ceiling it comes to rest at {standing:.2g} s of lag, at any rate"
    title = "Time lag at rest of the present policy, s"
    yield _bound(scenario, "standing_lag", title, standing, text)
    word = "it flips by itself" if gain >= _FLIPS_FROM else "it may flip" if gain > 1 else "stable"
    text = (
        f"one pod works off {gain:.2g} lagThresholds between two syncs: without a scale-down "
        f"window {word}"
    )
    yield _bound(scenario, "loop_gain", "Loop gain of the present policy, ", gain, text)


def _bound(
    scenario: Scenario,
    name: BoundName,
    heading: str,
    value: float | None,
    text: str,
    *,
    is_broken: bool = False,
) -> Bound:
    """Return a bound; the heading is the title with the unit behind its last comma."""
    title, _, unit = heading.rpartition(", ")
    said: dict[str, Any] = {"value": value, "unit": unit, "text": text, "is_broken": is_broken}
    return Bound(scenario=scenario.name, name=name, title=title, **said)


_FLIPS_FROM = 7.5
"""docs/findings/gain_rule."""


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"
