"""``lagbench plan``: predict a cell before anything starts."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagbench.cli.options import (
    JsonOption,
    PolicyOption,
    ScenarioArgument,
    SeedOption,
    SettingsOption,
    SloOption,
    StartOption,
    asked_cell,
    environment_at,
    played,
    slo_settings,
)
from lagbench.cli.terminal import Terminal, print_json
from lagbench.errors import ExitCode
from pod_program.shown import printable

if TYPE_CHECKING:
    from lagbench.adapters.process.processor_speed import Processor
    from lagbench.catalog.catalog import Cell
    from lagbench.core.policy.policy import Policy
    from lagbench.core.scenario.actions import Action
    from lagbench.core.scenario.scenario import Scenario
    from lagbench.core.simulation.plan import Plan
    from lagbench.core.simulation.prediction import Prediction

SPIKES_SHOWN = 4
JUDGED = "✓ the SLO holds, ✗ it fails, ? it holds in some; a run judges the others"


def plan(
    scenario: ScenarioArgument,
    *,
    policy: PolicyOption = None,
    seed: SeedOption = None,
    start: StartOption = None,
    slo: SloOption = None,
    settings: SettingsOption = None,
    manifests: Annotated[
        bool, typer.Option("--manifests", help="Also print the manifests as applied.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Predict a run without starting anything: lag, reaction, drain, duration, limits, disk."""
    from lagbench.adapters.process.processor_speed import this_processor
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.cli.rehearsal import predicted_run
    from lagbench.core.simulation.plan import cannot_carry, disk_bytes, plan_cell

    cell = played(asked_cell(scenario, policy, seed, settings, **slo_settings(slo))[0])
    plans = [plan_cell(group.scenario, group.policy) for group in cell.groups]
    predictions = [predicted_run(group, around=environment_at(start)) for group in cell.groups]
    root = runs_root()
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    disk, free = disk_bytes(plans), shutil.disk_usage(existing).free
    here = this_processor()
    second = plans[1] if len(plans) > 1 else None
    lack = cannot_carry(plans[0], here.cores, here.speed, second=second)
    fitting, advice = _fitting_scale(cell, here) if lack else (None, "")
    groups = list(zip(cell.groups, plans, predictions, strict=True))
    starts_at = environment_at(start).starts_at_seconds
    if as_json:
        document: dict[str, Any] = {
            "scenario": cell.scenario.name,
            "policy": cell.policy_name,
            "seed": cell.scenario.seed,
            "disk_bytes": disk,
            "free_disk_bytes": free,
            "this_machine_lacks": lack or None,
            "rate_scale": cell.rate_scale,
            "fitting_rate_scale": fitting,
            "groups": [_document(*group) for group in groups],
        }
        print_json(document | ({"manifests": _manifests(cell)} if manifests else {}))
        return ExitCode.PASS
    console = Terminal()
    titles = [""] if cell.second is None else [" of the first group", " of the second group"]
    for (group, needs, (predicted, seconds)), of in zip(groups, titles, strict=True):
        title = f"{group.scenario.name} with {group.policy_name}: prediction{of}"
        _print_prediction(console, title, needs, predicted, seconds)
    room = ("disk", f"at most {disk / 2**20:,.0f} MiB, free {free / 2**30:,.0f} GiB")
    for (group, needs, _), of in zip(groups, titles, strict=True):
        rows = [*_needs(group.scenario, needs), *([room] if group is cell else [])]
        rows += _cron_rows(group.policy, starts_at, needs.stream_seconds)
        console.facts(f"needs and limits{of}", rows)
        if numbers := _left_out(group.scenario):
            console.warn(f"the prediction leaves out actions {', '.join(map(str, numbers))}")
        for warning in needs.warnings:
            console.warn(warning)
    if lack:
        console.warn(f"on the embedded bench {lack}")
        console.warn(advice)
    if disk > free:
        console.say("✗ this disk is too small for the run", style="red")
    if manifests:
        import yaml

        documents = yaml.safe_dump_all(_manifests(cell), sort_keys=False, allow_unicode=True)
        typer.echo(printable(documents))  # a console would break its lines
    return ExitCode.PASS


def _fitting_scale(cell: Cell, here: Processor) -> tuple[float | None, str]:
    """Return the rate scale of the cell's files at which it fits here, and a line of advice."""
    from lagbench.core.simulation.fitting_scale import fitting_scale

    asked = [(group.scenario, group.policy) for group in cell.groups]
    scale, why = fitting_scale(asked, here.cores, here.speed)
    if scale is None:
        return None, f"no rate_scale helps: {why}"
    found = float(f"{scale * cell.rate_scale:.6g}")
    return found, f"--set rate_scale={found:g} fits: rates, pods and thresholds together"


def _left_out(scenario: Scenario) -> list[int]:
    """Return the numbers of the actions that the simulator does not play."""
    from lagbench.core.simulation.simulate import is_simulated

    return [number for number, one in enumerate(scenario.actions) if not is_simulated(one)]


def _document(cell: Cell, plan: Plan, prediction: tuple[Prediction, float]) -> dict[str, Any]:
    """Return a group's prediction and needs as data; null: there is none, or no limit."""
    predicted, seconds = prediction
    needed = ("capacity_per_second", "is_saturated", "pods_needed_at_base", "pods_needed_at_peak")
    return {
        "prediction": predicted.measures,
        "slos": predicted.slos,
        "spike_replicas": predicted.spike_replicas,
        "phases": predicted.phases,
        "expected_run_seconds": seconds,
        "actions_left_out": _left_out(cell.scenario),
        **{name: getattr(plan, name) for name in needed},
        **asdict(plan),
    }


def _print_prediction(
    console: Terminal, title: str, plan: Plan, predicted: Prediction, seconds: float
) -> None:
    from lagbench.core.measures.measures import NAMED
    from lagbench.core.simulation.model_error import error_text
    from lagbench.core.verdict.in_words import MARKS

    rows = []
    judged = {s.name: f"  {MARKS[s.status]} SLO {s.threshold}" for s in predicted.slos}
    for name, found in predicted.measures.items():
        text = found.text(NAMED[name])
        if name in ("reaction_seconds", "drain_seconds") and not plan.spikes:
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
    console.facts(title, rows)
    console.print(
        f"simulated over {predicted.phases} phases of the HPA's sync: median (90 % range of runs); "
        "nothing was started"
        + (f"; {JUDGED}\n" if predicted.slos else "\n")
        + f"{error_text(predicted.measures)}\n",
        style="dim",
    )


def _needs(scenario: Scenario, plan: Plan) -> list[tuple[str, str]]:
    """Return what a run of the group needs, and what limits it."""
    from lagbench.cli.policy_command import loop_text
    from lagbench.core.simulation.plan import skew_text

    payload, tail = scenario.payload, plan.tail
    size = f"{scenario.message_bytes} B"
    if payload is not None and payload.mean_bytes is not None:
        most = f"at most {payload.largest_bytes:,} B"
        size = f"{payload.mean_bytes:,.0f} B on average, {most} ({payload.samples:,} samples)"
    spikes = [
        f"{spike.start_seconds:g} to {spike.end_seconds:g} s at {spike.rate_peak:,.0f}/s"
        for spike in plan.spikes[:SPIKES_SHOWN]
    ]
    if len(plan.spikes) > SPIKES_SHOWN:
        spikes.append(f"{len(plan.spikes) - SPIKES_SHOWN} more")
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


def _cron_rows(policy: Policy, starts_at: int, seconds: float) -> Iterator[tuple[str, str]]:
    """Yield when each cron trigger is open in the stream that is simulated."""
    from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
    from lagbench.core.keda.triggers.cron_trigger import CronTrigger
    from lagbench.core.policy.stream_windows import WINDOWS_ANNOTATION

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


def _action(number: int, action: Action) -> str:
    from lagbench.core.cluster import policy_manifest
    from lagbench.core.scenario import actions

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
    from lagbench.core.kubernetes_values import NS_PER_SECOND
    from lagbench.core.scenario.event_stream import poisoned_key, poisoned_seqs

    poison, key = scenario.poison, poisoned_key(scenario)
    if poison is None or key is None:
        return []
    window = f"{poison.from_seconds:g} to {key.until_offset_ns / NS_PER_SECOND:g} s"
    named = f"messages of key {key.entity_id} (rank {poison.key_rank})"
    return [("poison", f"{len(poisoned_seqs(scenario)):,} {named} {poison.effect}, {window}")]


def _manifests(cell: Cell) -> list[dict[str, Any]]:
    """Return the manifests of the run; run id and broker are known only when it starts."""
    from lagbench.adapters.kube.cluster_check import base_manifest, base_objects
    from lagbench.catalog.own_consumers import own_workload
    from lagbench.core.cluster import manifests, run_jobs, spark_pods
    from lagbench.core.cluster.policy_manifest import policy_for_run
    from lagbench.core.scenario.actions import downstream_pace
    from lagbench.core.scenario.consumer_kinds import SPARK_MASTER, SPARK_MASTER_PORT
    from lagbench.core.scenario.event_stream import poisoned_key
    from lagbench.core.scenario.run_names import RunNames
    from lagbench.core.scenario.stream_tail import tail_of

    def deployment(folder: str) -> dict[str, Any]:
        return base_manifest(folder, "Deployment")

    first, made = RunNames("planned"), []
    for names, group in zip((first, first.second), cell.groups, strict=False):
        scenario, consumer = group.scenario, group.scenario.consumer
        target = manifests.RunTarget(names, "kafka:9092", workload=consumer.workload)
        replicas = group.policy.limits.started_replicas
        if consumer.kind == "spark":
            url = f"spark://{SPARK_MASTER}:{SPARK_MASTER_PORT}"
            place = spark_pods.SparkPlace(url, version("pyspark"))
            services = base_objects(SPARK_MASTER)
            made += [manifests.companion_for_run(service, target) for service in services]
            made += spark_pods.spark_consumer_for_run(
                deployment, target, scenario, place, replicas=replicas
            )
        elif consumer.kind == "own":
            made.append(own_workload(scenario, target, replicas=replicas))
        else:
            made.append(
                manifests.consumer_for_run(
                    deployment("consumer"),
                    target,
                    consumer,
                    replicas=replicas,
                    seed=scenario.seed,
                    poison=poisoned_key(scenario),
                    pace=downstream_pace(scenario.actions),
                    has_payload=scenario.payload is not None,
                )
            )
        made += [
            manifests.recorder_for_run(deployment("recorder"), target),
            policy_for_run(group.policy.manifest, target, is_embedded=True),
        ]
    tail = tail_of(cell.scenario, started_replicas=cell.policy.limits.started_replicas)
    workload = cell.scenario.consumer.workload
    of_run = manifests.RunTarget(first, "kafka:9092", workload=workload)
    job = base_manifest("producer", "Job")
    return [*made, run_jobs.producer_job_for_run(job, of_run, cell.scenario, tail=tail)]


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:,.0f}"
