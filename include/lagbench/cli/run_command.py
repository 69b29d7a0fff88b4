"""``lagbench run``: one cell, from bench up to the verdict table."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from lagbench.cli.options import (
    JsonOption,
    PolicyOption,
    ScenarioArgument,
    SeedOption,
    SettingsOption,
    SloOption,
    TargetOption,
    TargetSettingsOption,
    asked_cell,
    conf_of,
    slo_settings,
)
from lagbench.cli.terminal import Terminal, print_json


def run(
    scenario: ScenarioArgument,
    *,
    policy: PolicyOption = None,
    seed: SeedOption = None,
    slo: SloOption = None,
    settings: SettingsOption = None,
    env_file: Annotated[
        Path | None,
        typer.Option(
            help="NAME=value lines: what your consumer's Secrets have "
            "(consumer.kind own, embedded)."
        ),
    ] = None,
    keep_bench: Annotated[bool, typer.Option(help="Keep the bench running afterwards.")] = False,
    target: TargetOption = "embedded",
    target_settings: TargetSettingsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Rehearse a scenario: drive the Dag scenario_run, show progress, print the verdict."""
    from lagbench.cli.rehearsal import opened_target, require_disk, run_seconds
    from lagbench.core.simulation.prediction import PHASES

    console = Terminal(stderr=as_json)
    env = {} if env_file is None else {"consumer.env_file": json.dumps(str(env_file.absolute()))}
    cell, overrides = asked_cell(scenario, policy, seed, settings, **slo_settings(slo), **env)
    require_disk(cell)
    told = f"{cell.scenario.name} with {cell.policy_name}, seed {cell.scenario.seed}"
    seconds = run_seconds(cell, phases=PHASES)
    console.say(f"{told}: about {seconds:,.0f} s, as predicted")
    conf = conf_of(cell.scenario.name, scenario, policy, overrides)
    with opened_target(
        console, target, target_settings, [cell], keep_bench=keep_bench, seconds=seconds
    ) as rehearse:
        rehearse(conf)
    return _conclude(console, conf["run_id"], as_json=as_json)


def _conclude(console: Terminal, run_id: str, *, as_json: bool = False) -> int:
    """Print verdict, report and failures of the clean-up; return the verdict's exit code."""
    from lagbench.adapters.runs.run_folder import RunFolder, runs_root
    from lagbench.cli.run_document import run_document
    from lagbench.cli.verdict_table import print_verdict
    from lagbench.orchestrator.opened_clusters import clean_up_failures
    from lagbench.report.outcome_files import SUMMARY

    folder = RunFolder(runs_root() / run_id)
    if as_json:
        code, document = run_document(folder)
        print_json(document)
    else:
        code = print_verdict(console, folder)
    page, summary = os.environ.get("GITHUB_STEP_SUMMARY"), folder.path / SUMMARY
    if page and summary.exists():  # the page of a job of GitHub's
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(summary.read_text(encoding="utf-8"))
    for failure in clean_up_failures(folder.path):
        console.say(f"the clean-up failed: {failure}", style="yellow")
        console.say(
            "Objects of the run may be left: pods, topics, its policy. The next run there removes "
            "them, and so does lagbench down."
        )
    return code
