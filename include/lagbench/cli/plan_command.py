"""``lagbench plan``: predict a cell before anything starts."""

from __future__ import annotations

import shutil
from dataclasses import asdict
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
    from lagbench.core.simulation.plan import Plan
    from lagbench.core.simulation.prediction import Prediction

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
    from lagbench.core.simulation.model_error import error_text
    from lagbench.core.simulation.plan import cannot_carry, disk_bytes, plan_cell
    from lagbench.report import plan_rows

    cell = played(asked_cell(scenario, policy, seed, settings, **slo_settings(slo))[0])
    plans = [plan_cell(group.scenario, group.policy) for group in cell.groups]
    around = environment_at(start)
    predictions = [plan_rows.predicted_run(group, around=around) for group in cell.groups]
    root = runs_root()
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    disk, free = disk_bytes(plans), shutil.disk_usage(existing).free
    here = this_processor()
    lack = cannot_carry(*plans, cores=here.cores, speed=here.speed)
    fitting, advice = _fitting_scale(cell, here) if lack else (None, "")
    groups = list(zip(cell.groups, plans, predictions, strict=True))
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
        console.facts(title, plan_rows.prediction_rows(needs, predicted, seconds))
        console.print(
            f"simulated over {predicted.phases} phases of the HPA's sync: median (90 % range of "
            "runs); nothing was started"
            + (f"; {JUDGED}\n" if predicted.slos else "\n")
            + f"{error_text(predicted.measures)}\n",
            style="dim",
        )
    room = ("disk", f"at most {disk / 2**20:,.0f} MiB, free {free / 2**30:,.0f} GiB")
    for (group, needs, (predicted, _)), of in zip(groups, titles, strict=True):
        rows = [*plan_rows.needs_rows(group.scenario, needs), *([room] if group is cell else [])]
        rows += plan_rows.cron_rows(group.policy, around.starts_at_seconds, needs.stream_seconds)
        console.facts(f"needs and limits{of}", rows)
        for warning in plan_rows.warnings_of(group.scenario, needs, predicted):
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


def _document(cell: Cell, plan: Plan, prediction: tuple[Prediction, float]) -> dict[str, Any]:
    """Return a group's prediction and needs as data; null: there is none, or no limit."""
    from lagbench.report.plan_rows import left_out, warnings_of

    predicted, seconds = prediction
    needed = ("capacity_per_second", "is_saturated", "pods_needed_at_base", "pods_needed_at_peak")
    return {
        "prediction": predicted.measures,
        "slos": predicted.slos,
        "spike_replicas": predicted.spike_replicas,
        "phases": predicted.phases,
        "expected_run_seconds": seconds,
        "actions_left_out": left_out(cell.scenario),
        **{name: getattr(plan, name) for name in needed},
        **asdict(plan),
        "warnings": warnings_of(cell.scenario, plan, predicted),
    }


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
