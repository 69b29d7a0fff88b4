"""``lagbench up | down | status | doctor | ui``: the embedded bench and its Airflow."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from lagbench.cli.cell_options import TargetOption, TargetSettingsOption
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def up() -> int:
    """Start the embedded bench (broker, localkube, autoscaler) in the background."""
    from lagbench.embedded import bench

    console = Terminal()
    state = bench.up(bench.state_dir(), attached=False, on_progress=console.print)
    console.print(f"Kafka       {state.bootstrap_servers}", highlight=False)
    console.print(f"Kubernetes  KUBECONFIG={state.kubeconfig}", highlight=False, soft_wrap=True)
    return ExitCode.PASS


def down() -> int:
    """Stop everything that was started: a run, Airflow, the bench; clean up clusters of runs."""
    from lagbench.cli.run_lock import STOP_GRACE_SECONDS, one_run_at_a_time, stop_running_run
    from lagbench.embedded import bench
    from lagbench.orchestrator.airflow_server import stop_server
    from lagbench.orchestrator.opened_clusters import (
        CLEAN_UP_LIMIT_SECONDS,
        clean_up_clusters,
        cluster_notes,
    )

    state_dir = bench.state_dir()
    grace_seconds = STOP_GRACE_SECONDS
    if cluster_notes(state_dir, "run"):
        grace_seconds += CLEAN_UP_LIMIT_SECONDS
    run = stop_running_run(state_dir, grace_seconds=grace_seconds, say=_say)
    stopped = [] if run is None else [run]
    stopped += ["Airflow"] if stop_server(state_dir) else []
    stopped += bench.down(state_dir)
    _say(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
    if cluster_notes(state_dir):
        with one_run_at_a_time(state_dir, purpose="the clean-up of a cluster"):
            clean_up_clusters(state_dir, _say)
    return ExitCode.PASS


def status() -> int:
    """Show the running parts, their addresses and ages; exit code 3 if one is down."""
    from lagbench.embedded import bench
    from lagbench.orchestrator.airflow_server import failed_parts, running_server, told_failure

    console = Terminal()
    state_dir = bench.state_dir()
    found = bench.status(state_dir)
    table = Table(box=None)
    for heading in ("part", "state", "pid", "address", "memory", "up for"):
        table.add_column(heading)
    for part in found.parts:
        table.add_row(
            part.name,
            Text("running", "green") if part.is_running else Text("down", "yellow"),
            str(part.pid or ""),
            part.address or "",
            "" if part.rss_bytes is None else f"{part.rss_bytes / 2**20:.0f} MiB",
            "" if part.uptime_seconds is None else f"{part.uptime_seconds:.0f} s",
        )
    server = running_server(state_dir)
    failed = [] if server is None else failed_parts(server)
    if server is not None:
        state = Text(f"{', '.join(failed)} down", "yellow") if failed else Text("running", "green")
        table.add_row("airflow", state, str(server.pid), server.url, "", "")
    console.print(table)
    if failed:
        _say(told_failure(failed, state_dir))
    return ExitCode.PASS if found.is_up and not failed else ExitCode.NOT_READY


def doctor() -> int:
    """Check that this machine can run the bench; exit code 3 when something is missing."""
    from lagbench.embedded import bench

    console = Terminal()
    checks = bench.doctor(bench.state_dir())
    table = Table(box=None)
    for heading in ("check", "", "seen", "what to do"):
        table.add_column(heading)
    for check in checks:
        mark = Text(check.status, _COLOURS[check.status])
        table.add_row(check.name, mark, check.seen, check.remedy)
    console.print(table)
    failed = any(check.status == "fail" for check in checks)
    return ExitCode.NOT_READY if failed else ExitCode.PASS


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the web UI.")] = 8080,
    target: TargetOption = "embedded",
    target_settings: TargetSettingsOption = None,
) -> int:
    """Start the bench and Airflow with its web UI in the background; print how to log in."""
    from lagbench.cli.run_lock import one_run_at_a_time
    from lagbench.embedded import bench
    from lagbench.orchestrator.airflow_environment import admin_password
    from lagbench.orchestrator.airflow_server import require_target, running_server, start_server
    from lagbench.orchestrator.opened_clusters import ClusterNote
    from lagbench.orchestrator.target import find_target

    console = Terminal()
    state_dir = bench.state_dir()
    cluster = find_target(target, target_settings)
    running = running_server(state_dir)
    if running is not None:
        require_target(running, target)
    # A run without a server has a Dag run in the same database: a scheduler that starts beside it
    # would continue that, or find it marked as abandoned.
    beside_no_run = one_run_at_a_time(state_dir, purpose="the start of Airflow")
    with beside_no_run if running is None else nullcontext():
        if cluster is None:
            state = bench.up(state_dir, attached=False, on_progress=console.print)
            connections = bench.connections(state)
        else:
            cluster.check()
            connections = cluster.connections()
            if running is None:
                ClusterNote.write(state_dir, cluster, "ui")
        server = start_server(
            state_dir, connections, port=port, target=target, on_progress=console.print
        )
    console.print("\nAirflow  ", Text(server.url, "bold"))
    console.print(f"user      {server.user}", highlight=False)
    console.print(f"password  {admin_password(state_dir)}", highlight=False, markup=False)
    console.print("Trigger", Text("scenario_run", "bold"), "there; `make down` stops everything.")
    return ExitCode.PASS


def _say(line: str) -> None:
    """Print a line unchanged: lists of names look like markup."""
    Terminal().print(line, markup=False, highlight=False, soft_wrap=True)
