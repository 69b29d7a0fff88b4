"""``lagbench run``: one cell, from bench up to the verdict table."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from lagbench.cli.cell_options import (
    PolicyOption,
    ScenarioArgument,
    SeedOption,
    SettingsOption,
    TargetOption,
    TargetSettingsOption,
)
from lagbench.cli.live_figures import LiveFigures
from lagbench.cli.progress import PhaseLog, ProgressDisplay, TelemetryReader
from lagbench.cli.run_lock import one_run_at_a_time
from lagbench.core.scenario import RunNames, new_run_id
from lagbench.errors import NotReady

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell

LOG_TAIL_LINES = 25
WHAT_MAY_BE_LEFT = (
    "Objects of the run may be left: pods, topics, its policy. The next run there removes them, "
    "and so does lagbench down."
)


def run(
    scenario: ScenarioArgument,
    *,
    policy: PolicyOption = None,
    seed: SeedOption = None,
    settings: SettingsOption = None,
    keep_bench: Annotated[bool, typer.Option(help="Keep the bench running afterwards.")] = False,
    target: TargetOption = "embedded",
    target_settings: TargetSettingsOption = None,
) -> int:
    """Rehearse a scenario: drive the Dag scenario_run, show progress, print the verdict."""
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.catalog.catalog import checked_cell, from_any_folder, parse_settings
    from lagbench.embedded import bench
    from lagbench.orchestrator.airflow_server import require_target, running_server
    from lagbench.orchestrator.opened_clusters import ClusterNote, has_removed_workloads
    from lagbench.orchestrator.target import find_target

    console = Console()
    overrides = parse_settings(settings or [])
    if seed is not None:
        overrides["seed"] = str(seed)
    cell = checked_cell(scenario, policy=policy, overrides=overrides)
    cluster = find_target(target, target_settings)
    state_dir = bench.state_dir()
    _require_playable(cell, state_dir, is_embedded=cluster is None)
    _require_disk(cell)
    run_id = new_run_id(
        cell.scenario.name, planned_at=datetime.now(UTC), unique_digits=secrets.token_hex(2)
    )
    # Airflow's server, when it runs already, may have been started in another folder.
    conf: dict[str, Any] = {"scenario": from_any_folder(scenario), "run_id": run_id}
    conf |= {"keep_bench": True, "overrides": overrides}
    if policy is not None:
        conf["policy"] = from_any_folder(policy)

    with one_run_at_a_time(state_dir):
        server = running_server(state_dir)
        if server is not None:
            require_target(server, target)
        if cluster is not None:
            cluster.check(cell.policy.manifest)
            reach = Reach(cluster.connections(), cluster.bootstrap_servers)
            # A server has its own note, and the teardown of the Dag run cleans up.
            note = ClusterNote.write(state_dir, cluster, "run") if server is None else None
            try:
                _follow(console, state_dir, reach=reach, conf=conf, server=server)
            except KeyboardInterrupt:
                if note is not None and not has_removed_workloads(runs_root() / run_id):
                    note.clean_up(lambda line: console.print(line, markup=False, soft_wrap=True))
                raise
            finally:
                if note is not None and has_removed_workloads(runs_root() / run_id):
                    note.forget()
            return _conclude(console, run_id)
        owns_bench = bench.running(state_dir) is None and not keep_bench
        state = bench.up(state_dir, attached=owns_bench, on_progress=console.print)
        try:
            reach = Reach(bench.connections(state), state.bootstrap_servers)
            _follow(console, state_dir, reach=reach, conf=conf, server=server)
        finally:
            if owns_bench:
                bench.down(state_dir)
    return _conclude(console, run_id)


@dataclass(frozen=True, slots=True)
class Reach:
    """The access of Airflow's tasks, and of this command, to the bench."""

    connections: Mapping[str, str]
    bootstrap_servers: str


def _require_playable(cell: Cell, state_dir: Path, *, is_embedded: bool) -> None:
    """Reject a cell that this target lacks a part for."""
    from lagbench.core.cluster import refuse_on_cluster, refuse_without_own_broker
    from lagbench.embedded import bench
    from lagbench.embedded.prometheus_program import require_prometheus

    if not is_embedded:
        refuse_on_cluster(cell.scenario)
        return
    if not bench.has_own_broker(state_dir):
        refuse_without_own_broker(cell.scenario)
    require_prometheus(cell.policy.manifest, where=cell.policy_name)
    for swapped in cell.swapped.values():
        require_prometheus(swapped.policy.manifest, where=swapped.name)


def _require_disk(cell: Cell) -> None:
    """Reject a run whose predicted data does not fit, before anything starts."""
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.core.plan import plan_cell
    from lagbench.embedded.broker import require_disk

    needed = plan_cell(cell.scenario, cell.policy).disk_bytes
    root = runs_root()
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    require_disk(existing, needed_bytes=needed)


def _follow(
    console: Console, state_dir: Path, *, reach: Reach, conf: dict[str, Any], server: Any
) -> None:
    """Start the Dag run and show it until it ends; Ctrl-C and SIGTERM stop it and clean up."""
    run_id = str(conf["run_id"])
    from lagbench.adapters.runs.run_folder import RunFolder, runs_root
    from lagbench.adapters.runs.topic_copies import how_to_account
    from lagbench.orchestrator.dag_run import DagRun, ProcessDagRun, ServerDagRun

    def stop(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    dag_run: DagRun
    if server is None:
        dag_run = ProcessDagRun(state_dir, reach.connections, conf)
    else:
        dag_run = ServerDagRun(server, state_dir, conf)
    folder = runs_root() / run_id
    console.print(f"run folder: {folder}", highlight=False, soft_wrap=True)
    phases = PhaseLog(folder / "phases.jsonl")
    telemetry = TelemetryReader(reach.bootstrap_servers, RunNames(run_id).telemetry_topic)
    figures, pause = LiveFigures(), threading.Event()
    try:
        with ProgressDisplay(console, run_id) as display:
            while not dag_run.is_finished():
                phases.advance()
                telemetry.flush_into(figures)
                display.show(phases.current, figures)
                pause.wait(0.25)
    except KeyboardInterrupt:
        console.print("stopping the run and cleaning up")
        dag_run.cancel()
        raise
    finally:
        telemetry.close()
    phases.advance()
    if not (folder / "verdict.json").exists():
        seen = "\n".join(phases.failures) or dag_run.log_tail(LOG_TAIL_LINES)
        raise NotReady(
            f"the run ended in phase {phases.current} without a verdict.\n{seen}\n"
            f"{dag_run.where_to_look()}{how_to_account(RunFolder(folder))}"
        )


def _conclude(console: Console, run_id: str) -> int:
    """Print verdict, report and failures of the clean-up; return the verdict's exit code."""
    from lagbench.adapters.runs.run_folder import RunFolder, runs_root
    from lagbench.cli.verdict_table import print_verdict
    from lagbench.orchestrator.opened_clusters import clean_up_failures

    folder = RunFolder(runs_root() / run_id)
    code = print_verdict(console, folder)
    for failure in clean_up_failures(folder.path):
        console.print(Text(f"the clean-up failed: {failure}", style="yellow"), soft_wrap=True)
        console.print(WHAT_MAY_BE_LEFT, highlight=False, soft_wrap=True)
    return code
