"""Say what a run would need and do: the prediction of a group and its limits, row by row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.catalog.catalog import Cell
from lagbench.core.cluster import policy_manifest
from lagbench.core.cluster.manifests import grace_seconds
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
from lagbench.core.keda.triggers.cron_trigger import CronTrigger
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.measures.measures import NAMED
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.review.subject import PolicyContext
from lagbench.core.policy.stream_windows import WINDOWS_ANNOTATION
from lagbench.core.scenario import actions
from lagbench.core.scenario.actions import Action
from lagbench.core.scenario.event_stream import poisoned_key, poisoned_seqs
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.core.simulation.plan import Plan, skew_text
from lagbench.core.simulation.predicted_slos import OF_SPIKES
from lagbench.core.simulation.prediction import PHASES, Prediction, expected_run_seconds, predict
from lagbench.core.simulation.simulate import is_simulated
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from lagbench.core.verdict.in_words import MARKS

_SPIKES_SHOWN = 4


def predicted_run(
    cell: Cell, *, phases: int | None = None, around: SimulatedEnvironment | None = None
) -> tuple[Prediction, float]:
    """Return the prediction, and the seconds that a run takes with everything around it."""
    swapped = {number: one.policy for number, one in cell.swapped.items()}
    predicted = predict(
        cell.scenario, cell.policy, phases=phases or PHASES, swapped=swapped, environment=around
    )
    replicas = cell.policy.limits.started_replicas
    return predicted, expected_run_seconds(cell.scenario, predicted, started_replicas=replicas)


def prediction_rows(plan: Plan, predicted: Prediction, seconds: float) -> list[tuple[str, str]]:
    """Return what is predicted of a group, by the headings of its measures.

    :param seconds: of the run with everything around it.
    """
    rows = []
    judged = {s.name: f"  {MARKS[s.status]} SLO {s.threshold}" for s in predicted.slos}
    for name, found in predicted.measures.items():
        text = found.text(NAMED[name])
        if name in OF_SPIKES and not plan.spikes:
            text = "no spike"
        elif name == "drain_seconds" and found.median is None:
            text = f"not within {predicted.watched_seconds:,.0f} s, or no threshold to drain to"
        elif name == "max_replicas":
            text += f" of at most {plan.max_replicas}"
        rows.append((NAMED[name].heading, f"{text}{judged.get(name, '')}"))
    if plan.spikes and predicted.spike_replicas is not None:
        text = predicted.spike_replicas.text(NAMED["max_replicas"])
        rows.append(("Replicas when the spike starts", text))
    for slo in predicted.slos:
        if slo.name not in predicted.measures:
            text = NAMED[slo.name].spread(slo.value, slo.low, slo.high)
            rows.append((NAMED[slo.name].heading, f"{text}{judged[slo.name]}"))
    rows.append(("Duration", f"about {seconds:,.0f} s with bench, scale-down and pipeline"))
    return rows


def needs_rows(scenario: Scenario, plan: Plan) -> list[tuple[str, str]]:
    """Return what a run of the group needs, and what limits it."""
    payload, tail = scenario.payload, plan.tail
    size = f"{scenario.message_bytes} B"
    if payload is not None and payload.mean_bytes is not None:
        most = f"at most {payload.largest_bytes:,} B"
        size = f"{payload.mean_bytes:,.0f} B on average, {most} ({payload.samples:,} samples)"
    spikes = [
        f"{spike.start_seconds:g} to {spike.end_seconds:g} s at {spike.rate_peak:,.0f}/s"
        for spike in plan.spikes[:_SPIKES_SHOWN]
    ]
    if len(plan.spikes) > _SPIKES_SHOWN:
        spikes.append(f"{len(plan.spikes) - _SPIKES_SHOWN} more")
    after = "none"
    if tail is not None:
        until = f"until the replicas are settled, at most {tail.most_seconds:,.0f} s"
        total = f"{plan.most_messages:,} messages in total"
        after = f"{tail.rate_per_second:,.0f}/s {until}: {total}"
    later = "".join(f", {one.partitions} from second {one.second:g} on" for one in plan.growths)
    capacity = f"{_number(plan.capacity_per_second)}/s at {plan.reachable_replicas} replicas"
    use = f"{plan.peak_rate / plan.capacity_per_second:.0%} of {capacity}"
    partitions = f"{plan.partitions} partitions{later}"
    rows = [
        ("messages", f"{plan.messages:,} of {size}, seed {scenario.seed}"),
        ("offered rate", f"{plan.base_rate:,.0f}/s, at the peak {plan.peak_rate:,.0f}/s"),
        ("stream", f"{plan.stream_seconds:,.0f} s"),
        ("tail", after),
        ("spikes", "; ".join(spikes) or "none: reaction, drain and fall of lag are not judged"),
        *(("actions", _action(number, one)) for number, one in enumerate(scenario.actions)),
        ("one pod does", f"{_number(plan.pod_rate)}/s"),
        ("pods needed", f"{plan.pods_needed_at_base} at the base, {plan.pods_needed_at_peak} peak"),
        ("replicas", f"{plan.min_replicas} to {plan.max_replicas}, {partitions}"),
        ("useful replicas", f"{plan.useful_replicas} (a partition has one consumer)"),
        ("saturation", f"saturated at the peak: {capacity}" if plan.is_saturated else use),
    ]
    if plan.loop_gain is not None and plan.standing_lag_seconds is not None:  # it reads lag
        rest = f"{plan.standing_lag_seconds:,.1f} s between floor and ceiling"
        threshold = plan.pod_rate * plan.standing_lag_seconds
        rows += [("loop gain", loop_text(plan.loop_gain, threshold)), ("lag at rest", rest)]
    share = f"{plan.hottest_share:.1%} of the load: {plan.hottest_rate:,.0f}/s{skew_text(scenario)}"
    rows += [("hottest partition", share), *_poison(scenario)]
    if plan.memory_mebibytes is not None:  # the consumer runs on Spark
        text = f"about {plan.memory_mebibytes / 1024:.1f} GiB for master, driver and"
        rows.append(("memory", f"{text} {plan.max_replicas} workers of two JVMs"))
    return rows


def loop_text(gain: float, threshold: float) -> str:
    """Return the loop gain, and what to do where docs/findings/gain_rule saw flips."""
    if gain < 1:
        return f"{gain:,.2g}"
    calm = f"a scaleDown window, or a lagThreshold above {gain * threshold:,.0f}, calms it"
    return f"{gain:,.2g}: from 1 on the replicas may flip by themselves; {calm}"


def cron_rows(policy: Policy, starts_at: int, seconds: float) -> Iterator[tuple[str, str]]:
    """Yield when each cron trigger is open in the stream that is simulated."""
    for window in policy.windows:
        yield "cron trigger", f"open from {window.from_seconds} to {window.until_seconds} s"
    spec, at = policy.spec, datetime.fromtimestamp(starts_at, UTC)
    triggers = spec.triggers if isinstance(spec, ScaledObjectSpec) and not policy.windows else ()
    for read in (one.parameters for one in triggers):
        if isinstance(read, CronTrigger):
            state = read.window_at(at)
            left = (state.until - at).total_seconds()
            word = "open" if state.is_within else "closed"
            word += f" until {left:,.0f} s" if left < seconds else ""
            text = f"{word} in a stream that starts {at:%a %Y-%m-%d %H:%MZ} (--start)"
            says = f"a run follows the clock, or the annotation {WINDOWS_ANNOTATION}: 0-120"
            yield "cron trigger", f"{text}; {says}"


def left_out(scenario: Scenario) -> list[int]:
    """Return the numbers of the actions that the simulator does not play."""
    return [number for number, one in enumerate(scenario.actions) if not is_simulated(one)]


def warnings_of(scenario: Scenario, plan: Plan, predicted: Prediction) -> list[str]:
    """Return what a person should know of a group before its run starts."""
    warnings = [*plan.warnings]
    if numbers := left_out(scenario):
        warnings.insert(0, f"the prediction leaves out actions {', '.join(map(str, numbers))}")
    peak, abort = predicted.measures["peak_lag_records"].median, scenario.abort
    limit = None if abort is None else abort.lag_records
    if peak is not None and limit is not None and peak > limit:
        warnings.append(
            f"the predicted peak lag of {peak:,.0f} is above abort.lag_records {limit:,}: the "
            "stream would end early, and the run not pass"
        )
    return warnings


def _action(number: int, action: Action) -> str:
    parts = [f"{number}: {action.kind} {actions.begin_text(action)}"]
    if isinstance(action, actions.LastingAction):
        parts.append(f"for {action.for_seconds:g} s")
    if isinstance(action, actions.GrowPartitions):
        parts.append(f"to {action.partitions}, permanently")
    if isinstance(action, actions.SwapPolicy):
        parts.append(f"to {action.policy}")
    if isinstance(action, actions.RollingRestart) and actions.restart_text(action):
        parts.append(actions.restart_text(action))
    if action.kind in policy_manifest.ONLY_EMBEDDED:
        parts.append("(embedded bench only)")
    return " ".join(parts)


def _poison(scenario: Scenario) -> list[tuple[str, str]]:
    """Return the row of the poisoned key, if there is one."""
    poison, key = scenario.poison, poisoned_key(scenario)
    if poison is None or key is None:
        return []
    window = f"{poison.from_seconds:g} to {key.until_offset_ns / NS_PER_SECOND:g} s"
    named = f"messages of key {key.entity_id} (rank {poison.key_rank})"
    return [("poison", f"{len(poisoned_seqs(scenario)):,} {named} {poison.effect}, {window}")]


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:,.0f}"


def context_of(scenario: Scenario) -> PolicyContext:
    """Return what a scenario says of the workload that a policy scales."""
    consumer, load = scenario.consumer, offered_load(scenario.profile)
    return PolicyContext(
        partitions=scenario.partitions,
        pod_rate=consumer.pod_rate_per_second,
        slo_seconds=scenario.slos.time_lag_p99_seconds,
        base_rate=load.base_rate,
        shutdown_seconds=grace_seconds(consumer) if consumer.graceful_shutdown else None,
        pause_seconds=load.longest_pause_seconds,
        consumer=consumer,
    )


def workloads_under_test(consumer: ConsumerSettings | None) -> tuple[dict[str, Any], ...]:
    """Return the consumers as a Deployment and as a StatefulSet: a policy scales one of the two.

    Their grace period is that of a run with these settings.
    """
    manifest = base_manifest("consumer", "Deployment")
    if consumer is not None:
        pod = manifest["spec"]["template"]["spec"]
        pod["terminationGracePeriodSeconds"] = grace_seconds(consumer)
    return (manifest, {**manifest, "kind": "StatefulSet"})
