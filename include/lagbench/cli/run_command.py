"""``lagbench run``: one cell, from bench up to the verdict table."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from lagbench.cli.cell_commands import (
    EnvFileOption,
    PolicyOption,
    ScenarioArgument,
    SeedOption,
    SettingsOption,
    TargetOption,
    TargetSettingsOption,
    new_id,
)
from lagbench.cli.terminal import Terminal


def run(
    scenario: ScenarioArgument,
    *,
    policy: PolicyOption = None,
    seed: SeedOption = None,
    settings: SettingsOption = None,
    env_file: EnvFileOption = None,
    keep_bench: Annotated[bool, typer.Option(help="Keep the bench running afterwards.")] = False,
    target: TargetOption = "embedded",
    target_settings: TargetSettingsOption = None,
) -> int:
    """Rehearse a scenario: drive the Dag scenario_run, show progress, print the verdict."""
    from lagbench.catalog.catalog import checked_cell, parse_settings
    from lagbench.catalog.catalog_files import from_any_folder
    from lagbench.cli.rehearsal import opened_target, require_disk

    console = Terminal()
    overrides = parse_settings(settings or [])
    if seed is not None:
        overrides["seed"] = str(seed)
    if env_file is not None:
        overrides["consumer.env_file"] = json.dumps(str(env_file.absolute()))
    cell = checked_cell(scenario, policy=policy, overrides=overrides)
    require_disk(cell)
    run_id = new_id(cell.scenario.name)
    # Airflow's server, when it runs already, may have been started in another folder.
    conf: dict[str, Any] = {"scenario": from_any_folder(scenario), "run_id": run_id}
    conf |= {"keep_bench": True, "overrides": overrides}
    if policy is not None:
        conf["policy"] = from_any_folder(policy)
    with opened_target(
        console,
        target=target,
        target_settings=target_settings,
        cells=[cell],
        keep_bench=keep_bench,
    ) as rehearse:
        rehearse(conf)
    return _conclude(console, run_id)


def _conclude(console: Terminal, run_id: str) -> int:
    """Print verdict, report and failures of the clean-up; return the verdict's exit code."""
    from lagbench.adapters.runs.run_folder import RunFolder, runs_root
    from lagbench.cli.verdict_table import print_verdict
    from lagbench.orchestrator.opened_clusters import clean_up_failures

    folder = RunFolder(runs_root() / run_id)
    code = print_verdict(console, folder)
    for failure in clean_up_failures(folder.path):
        console.say(f"the clean-up failed: {failure}", style="yellow")
        console.say(
            "Objects of the run may be left: pods, topics, its policy. The next run there removes "
            "them, and so does lagbench down."
        )
    return code
