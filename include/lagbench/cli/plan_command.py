"""``lagbench plan``: predict a cell before anything starts."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from lagbench.cli.cell_options import (
    PolicyOption,
    ScenarioArgument,
    SeedOption,
    SettingsOption,
    StartOption,
    environment_at,
)
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell
    from lagbench.core.plan import Plan
    from lagbench.core.scenario import Scenario
    from lagbench.core.scenario.stream import Spike
    from lagbench.core.simulation import Prediction

SPIKES_SHOWN = 4
_AFTER_A_SPIKE = ("reaction_seconds", "drain_seconds")


def plan(
    scenario: ScenarioArgument,
    *,
    policy: PolicyOption = None,
    seed: SeedOption = None,
    start: StartOption = None,
    settings: SettingsOption = None,
    manifests: Annotated[
        bool, typer.Option("--manifests", help="Also print the manifests as applied.")
    ] = False,
) -> int:
    """Predict a run without starting anything: lag, reaction, drain, duration, limits, disk."""
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.catalog.catalog import checked_cell, parse_settings
    from lagbench.core.plan import plan_cell
    from lagbench.core.simulation import predict

    overrides = parse_settings(settings or [])
    if seed is not None:
        overrides["seed"] = str(seed)
    cell = checked_cell(scenario, policy=policy, overrides=overrides)
    console = Terminal()
    plans = [plan_cell(group.scenario, group.policy) for group in cell.groups]
    for group, needs in zip(cell.groups, plans, strict=True):
        swapped = {number: one.policy for number, one in group.swapped.items()}
        predicted = predict(
            group.scenario, group.policy, swapped=swapped, environment=environment_at(start)
        )
        _print_prediction(console, group, needs, predicted, of=_of_group(cell, group))
    root = runs_root()
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    _print_needs(console, cell, plans, free_bytes=shutil.disk_usage(existing).free)
    if manifests:
        _print_manifests(console, cell)
    return ExitCode.PASS


def _of_group(cell: Cell, group: Cell) -> str:
    """Return the group's part of a title; empty if the run has one group."""
    if cell.second is None:
        return ""
    return " of the first group" if group is cell else " of the second group"


def _print_prediction(
    console: Console, cell: Cell, plan: Plan, predicted: Prediction, *, of: str
) -> None:
    from lagbench.core.measures import NAMED
    from lagbench.core.simulation import expected_run_seconds

    title = f"{cell.scenario.name} with {cell.policy_name}: prediction{of}"
    rows = [(NAMED[name].heading, _predicted(name, plan, predicted)) for name in predicted.measures]
    seconds = expected_run_seconds(
        cell.scenario, predicted, started_replicas=cell.policy.limits.started_replicas
    )
    rows.append(("Duration", f"about {seconds:,.0f} s with bench, scale-down and pipeline"))
    console.print(_table(title, rows))
    console.print(
        f"simulated over {predicted.phases} phases of the HPA's sync: median (lowest to highest); "
        "nothing was started\n",
        style="dim",
    )


def _table(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    table = Table(title=title, box=None, show_header=False)
    table.title_justify = "left"
    table.add_column(style="bold")
    table.add_column()
    for name, value in rows:
        table.add_row(name, value)
    return table


def _print_needs(console: Console, cell: Cell, plans: Sequence[Plan], *, free_bytes: int) -> None:
    """Print the needs of each group, and what this machine lacks for all of them."""
    from lagbench.adapters.process.processor_speed import this_processor
    from lagbench.core.plan import cannot_carry, disk_bytes

    disk = disk_bytes(plans)
    room = f"at most {disk / 2**20:,.0f} MiB, free {free_bytes / 2**30:,.0f} GiB"
    for group, plan in zip(cell.groups, plans, strict=True):
        of_run = [("disk", room)] if group is cell else []
        rows = [*_needs(group, plan), *of_run]
        console.print(_table(f"needs and limits{_of_group(cell, group)}", rows))
        _print_warnings(console, group.scenario, plan)
    here = this_processor()
    second = plans[1] if len(plans) > 1 else None
    if lack := cannot_carry(plans[0], here.cores, here.speed, second=second):
        console.print(Text("!", "yellow"), f"on the embedded bench {lack}", highlight=False)
    if disk > free_bytes:
        console.print(Text("✗", "red"), "this disk is too small for the run")


def _size(scenario: Scenario) -> str:
    payload = scenario.payload
    if payload is None or payload.mean_bytes is None:
        return f"{scenario.message_bytes} B"
    most = f"at most {payload.largest_bytes:,} B"
    return f"{payload.mean_bytes:,.0f} B on average, {most} ({payload.samples:,} samples)"


def _needs(cell: Cell, plan: Plan) -> list[tuple[str, str]]:
    scenario = cell.scenario
    return [
        ("messages", f"{plan.messages:,} of {_size(scenario)}, seed {scenario.seed}"),
        ("offered rate", f"{plan.base_rate:,.0f}/s, at the peak {plan.peak_rate:,.0f}/s"),
        ("stream", f"{plan.stream_seconds:,.0f} s"),
        ("tail", _tail(plan)),
        ("spikes", _spikes(plan.spikes)),
        *(("actions", line) for line in _actions(cell)),
        ("one pod does", f"{_number(plan.pod_rate)}/s"),
        ("pods needed", f"{plan.pods_needed_at_base} at the base, {plan.pods_needed_at_peak} peak"),
        ("replicas", f"{plan.min_replicas} to {plan.max_replicas}, {_partitions(plan)}"),
        ("useful replicas", f"{plan.useful_replicas} (a partition has one consumer)"),
        ("saturation", _saturation(plan)),
        *_gain(plan),
        ("hottest partition", f"{plan.hottest_share:.1%} of the load: {plan.hottest_rate:,.0f}/s"),
        *_poison(scenario),
        *_memory(plan),
    ]


def _print_warnings(console: Console, scenario: Scenario, plan: Plan) -> None:
    from lagbench.core.simulation import is_simulated

    if left_out := [str(n) for n, one in enumerate(scenario.actions) if not is_simulated(one)]:
        text = f"the prediction leaves out actions {', '.join(left_out)}"
        console.print(Text("!", "yellow"), text, highlight=False)
    for warning in plan.warnings:
        console.print(Text("!", "yellow"), warning, highlight=False)


def _gain(plan: Plan) -> list[tuple[str, str]]:
    """Return the row of the loop gain, if the policy reads lag."""
    if plan.loop_gain is None or plan.standing_lag_seconds is None:
        return []
    from lagbench.cli.policy_report import loop_text

    rests = f"{plan.standing_lag_seconds:,.1f} s between floor and ceiling"
    return [("loop gain", loop_text(plan.loop_gain)), ("lag at rest", rests)]


def _memory(plan: Plan) -> list[tuple[str, str]]:
    """Return the row of Spark's memory, if the consumer runs on it."""
    if plan.memory_mebibytes is None:
        return []
    text = f"about {plan.memory_mebibytes / 1024:.1f} GiB for master, driver and"
    return [("memory", f"{text} {plan.max_replicas} workers of two JVMs")]


def _partitions(plan: Plan) -> str:
    later = [f", {one.partitions} from second {one.second:g} on" for one in plan.growths]
    return f"{plan.partitions} partitions{''.join(later)}"


def _poison(scenario: Scenario) -> list[tuple[str, str]]:
    """Return the row of the poisoned key, if there is one."""
    from lagbench.core.kubernetes import NS_PER_SECOND
    from lagbench.core.scenario.stream import poisoned_key, poisoned_seqs

    poison, key = scenario.poison, poisoned_key(scenario)
    if poison is None or key is None:
        return []
    window = f"{poison.from_seconds:g} to {key.until_offset_ns / NS_PER_SECOND:g} s"
    named = f"messages of key {key.entity_id} (rank {poison.key_rank})"
    return [("poison", f"{len(poisoned_seqs(scenario)):,} {named} {poison.effect}, {window}")]


def _print_manifests(console: Console, cell: Cell) -> None:
    import yaml

    documents = yaml.safe_dump_all(_manifests(cell), sort_keys=False, allow_unicode=True)
    console.print(Syntax(documents, "yaml", background_color="default", word_wrap=True))


def _manifests(cell: Cell) -> list[dict[str, Any]]:
    """Return the manifests of the run; run id and broker are known only when it starts."""
    from lagbench.adapters.kube.manifest_files import base_manifest, base_objects
    from lagbench.catalog.own_consumers import own_workload
    from lagbench.core.cluster import (
        SparkPlace,
        companion_for_run,
        policy_for_run,
        producer_job_for_run,
        spark_consumer_for_run,
    )
    from lagbench.core.cluster import manifests as patch
    from lagbench.core.scenario import (
        SPARK_MASTER,
        SPARK_MASTER_PORT,
        RunNames,
        downstream_pace,
    )
    from lagbench.core.scenario.stream import poisoned_key, tail_of

    first, made = RunNames("planned"), []
    for names, group in zip((first, first.second), cell.groups, strict=False):
        scenario = group.scenario
        target = patch.RunTarget(names, "kafka:9092", workload=scenario.consumer.workload)
        replicas = group.policy.limits.started_replicas
        if scenario.consumer.kind == "spark":
            made += [companion_for_run(service, target) for service in base_objects(SPARK_MASTER)]
            made += spark_consumer_for_run(
                lambda folder: base_manifest(folder, "Deployment"),
                target,
                scenario,
                SparkPlace(f"spark://{SPARK_MASTER}:{SPARK_MASTER_PORT}", version("pyspark")),
                replicas=replicas,
            )
        elif scenario.consumer.kind == "own":
            made.append(own_workload(scenario, target, replicas=replicas))
        else:
            made.append(
                patch.consumer_for_run(
                    base_manifest("consumer", "Deployment"),
                    target,
                    scenario.consumer,
                    replicas=replicas,
                    seed=scenario.seed,
                    poison=poisoned_key(scenario),
                    pace=downstream_pace(scenario.actions),
                    has_payload=scenario.payload is not None,
                )
            )
        made += [
            patch.recorder_for_run(base_manifest("recorder", "Deployment"), target),
            policy_for_run(group.policy.manifest, target, is_embedded=True),
        ]
    tail = tail_of(cell.scenario, started_replicas=cell.policy.limits.started_replicas)
    job = base_manifest("producer", "Job")
    of_run = patch.RunTarget(first, "kafka:9092", workload=cell.scenario.consumer.workload)
    return [*made, producer_job_for_run(job, of_run, cell.scenario, tail=tail)]


def _spikes(spikes: Sequence[Spike]) -> str:
    if not spikes:
        return "none: reaction, drain and fall of lag are not judged"
    shown = [
        f"{spike.start_seconds:g} to {spike.end_seconds:g} s at {spike.rate_peak:,.0f}/s"
        for spike in spikes[:SPIKES_SHOWN]
    ]
    more = len(spikes) - len(shown)
    return "; ".join(shown) + (f"; {more} more" if more > 0 else "")


def _actions(cell: Cell) -> list[str]:
    """Return a line for each action of the scenario."""
    from lagbench.core.cluster import ONLY_EMBEDDED
    from lagbench.core.scenario import (
        GrowPartitions,
        LastingAction,
        RollingRestart,
        SwapPolicy,
        begin_text,
        restart_text,
    )

    lines = []
    for number, action in enumerate(cell.scenario.actions):
        parts = [f"{number}: {action.kind} {begin_text(action)}"]
        if isinstance(action, LastingAction):
            parts.append(f"for {action.for_seconds:g} s")
        if isinstance(action, GrowPartitions):
            parts.append(f"to {action.partitions}, permanently")
        if isinstance(action, SwapPolicy):
            parts.append(f"to {action.policy}")
        if isinstance(action, RollingRestart) and restart_text(action):
            parts.append(restart_text(action))
        if action.kind in ONLY_EMBEDDED:
            parts.append("(embedded bench only)")
        lines.append(" ".join(parts))
    return lines


def _predicted(name: str, plan: Plan, predicted: Prediction) -> str:
    """Return the range of a measure; without a value, the reason."""
    from lagbench.core.measures import NAMED

    of = predicted.measures[name]
    if name in _AFTER_A_SPIKE and not plan.spikes:
        return "no spike"
    if name == "drain_seconds" and of.median is None:
        return f"not within {predicted.watched_seconds:,.0f} s, or no threshold to drain to"
    shown = of.text(NAMED[name])
    return f"{shown} of at most {plan.max_replicas}" if name == "max_replicas" else shown


def _tail(plan: Plan) -> str:
    if plan.tail is None:
        return "none"
    return (
        f"{plan.tail.rate_per_second:,.0f}/s until the replicas are settled, at most "
        f"{plan.tail.most_seconds:,.0f} s: {plan.most_messages:,} messages in total"
    )


def _saturation(plan: Plan) -> str:
    capacity = f"{_number(plan.capacity_per_second)}/s at {plan.reachable_replicas} replicas"
    if plan.is_saturated:
        return f"saturated at the peak: {capacity}"
    return f"{plan.peak_rate / plan.capacity_per_second:.0%} of {capacity}"


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:,.0f}"
