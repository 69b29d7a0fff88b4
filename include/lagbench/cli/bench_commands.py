"""``lagbench up | down | status | doctor | ui``: the embedded bench and its Airflow."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer
from rich.text import Text

from lagbench import project
from lagbench.cli.options import TargetOption, TargetSettingsOption
from lagbench.cli.terminal import Row, Terminal
from lagbench.errors import ExitCode

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def up() -> int:
    """Start the embedded bench (broker, localkube, autoscaler) in the background."""
    from lagbench.embedded import bench

    console = Terminal()
    state = bench.up(project.state_dir(), attached=False, on_progress=console.say)
    console.say(f"Kafka       {state.bootstrap_servers}")
    console.say(f"Kubernetes  KUBECONFIG={state.kubeconfig}")
    return ExitCode.PASS


def down() -> int:
    """Stop everything that was started: a run, Airflow, the bench; clean up clusters of runs."""
    from lagbench.cli.rehearsal import STOP_GRACE_SECONDS, one_run_at_a_time, stop_running_run
    from lagbench.embedded import bench
    from lagbench.orchestrator.airflow_server import stop_server
    from lagbench.orchestrator.opened_clusters import (
        CLEAN_UP_LIMIT_SECONDS,
        clean_up_clusters,
        cluster_notes,
    )

    say, state_dir = Terminal().say, project.state_dir()
    clean_up_seconds = CLEAN_UP_LIMIT_SECONDS if cluster_notes(state_dir, "run") else 0
    run = stop_running_run(state_dir, grace_seconds=STOP_GRACE_SECONDS + clean_up_seconds, say=say)
    stopped = [] if run is None else [run]
    stopped += ["Airflow"] if stop_server(state_dir) else []
    stopped += bench.down(state_dir)
    say(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
    if cluster_notes(state_dir):
        with one_run_at_a_time(state_dir, purpose="the clean-up of a cluster"):
            clean_up_clusters(state_dir, say)
    return ExitCode.PASS


def status() -> int:
    """Show the running parts, their addresses and ages; exit code 3 if one is down."""
    from lagbench.embedded import bench
    from lagbench.orchestrator.airflow_server import failed_parts, running_server, told_failure

    state_dir = project.state_dir()
    found, server = bench.status(state_dir), running_server(state_dir)
    up = Text("running", "green")
    rows: list[Row] = []
    for part in found.parts:
        memory = "" if part.rss_bytes is None else f"{part.rss_bytes / 2**20:.0f} MiB"
        age = "" if part.uptime_seconds is None else f"{part.uptime_seconds:.0f} s"
        state = up if part.is_running else Text("down", "yellow")
        rows.append((part.name, state, str(part.pid or ""), part.address or "", memory, age))
    failed = [] if server is None else failed_parts(server)
    if server is not None:
        state = Text(f"{', '.join(failed)} down", "yellow") if failed else up
        rows.append(("airflow", state, str(server.pid), server.url, "", ""))
    console = Terminal()
    headings = ("part", "state", "pid", "address", "memory", "up for")
    console.table(headings, rows, folded=headings)
    if failed:
        console.say(told_failure(failed, state_dir))
    return ExitCode.PASS if found.is_up and not failed else ExitCode.NOT_READY


def doctor() -> int:
    """Check that this machine can run the bench; exit code 3 when something is missing."""
    from lagbench.embedded import bench

    checks = bench.doctor(project.state_dir())
    rows = [(c.name, Text(c.status, _COLOURS[c.status]), c.seen, c.remedy) for c in checks]
    headings = ("check", "", "seen", "what to do")
    Terminal().table(headings, rows, folded=headings)
    failed = any(check.status == "fail" for check in checks)
    return ExitCode.NOT_READY if failed else ExitCode.PASS


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the web UI.")] = 8080,
    target: TargetOption = "embedded",
    target_settings: TargetSettingsOption = None,
) -> int:
    """Start the bench and Airflow with its web UI in the background; print how to log in."""
    from lagbench.cli.rehearsal import one_run_at_a_time
    from lagbench.embedded import bench
    from lagbench.orchestrator.airflow_environment import admin_password
    from lagbench.orchestrator.airflow_server import require_target, running_server, start_server
    from lagbench.orchestrator.opened_clusters import ClusterNote
    from lagbench.orchestrator.target import find_target

    console, state_dir = Terminal(), project.state_dir()
    cluster, running = find_target(target, target_settings), running_server(state_dir)
    if running is not None:
        require_target(running, target)
    # A run without a server has a Dag run in the same database: a scheduler that starts beside it
    # would continue that, or find it marked as abandoned.
    beside_no_run = one_run_at_a_time(state_dir, purpose="the start of Airflow")
    with beside_no_run if running is None else nullcontext():
        if cluster is None:
            state = bench.up(state_dir, attached=False, on_progress=console.say)
            connections = bench.connections(state)
        else:
            cluster.check()
            connections = cluster.connections()
            if running is None:
                ClusterNote.write(state_dir, cluster, "ui")
        server = start_server(
            state_dir, connections, port=port, target=target, on_progress=console.say
        )
    console.say(Text.assemble("\nAirflow   ", (server.url, "bold")))
    console.say(f"user      {server.user}")
    console.say(f"password  {admin_password(state_dir)}")
    console.say(f"Trigger {server.url}/dags/scenario_run; the tab Report of its run is live.")
    console.say("lagbench down stops everything.")
    return ExitCode.PASS
