"""Rehearse cells on a bench or a cluster: hold it, start each Dag run, show it until it ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from lagbench import project
from lagbench.cli.machine_faults import no_space
from lagbench.cli.run_lock import one_run_at_a_time
from lagbench.cli.terminal import Terminal
from lagbench.cli.watched_run import ProgressDisplay, WatchedRun
from lagbench.errors import NotReady, WrongInput

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell
    from lagbench.orchestrator.airflow_environment import DagProcess
    from lagbench.orchestrator.airflow_server import AirflowServer
    from lagbench.orchestrator.dag_run import DagRun
    from lagbench.orchestrator.target import ClusterTarget

LOG_TAIL_LINES = 25
_STARTS_SECONDS = 900.0
"""For the starts of a run's pods on a cluster: each may take 300 s, some at the same time."""
Conf = dict[str, Any]
Rehearse = Callable[[Conf], None]
"""Rehearse the cell of a conf until it has a verdict; ``NotReady`` if it ends without one."""


@contextmanager
def opened_target(
    console: Terminal,
    *,
    target: str,
    target_settings: Path | None,
    cells: Sequence[Cell],
    keep_bench: bool = False,
    purpose: str = "a run",
) -> Iterator[Rehearse]:
    """Hold the target for one command, and provide the function that rehearses there."""
    from lagbench.embedded import bench
    from lagbench.orchestrator.airflow_environment import DagProcess
    from lagbench.orchestrator.airflow_server import (
        require_healthy,
        require_target,
        running_server,
    )
    from lagbench.orchestrator.target import find_target, require_playable

    cluster = find_target(target, target_settings)
    state_dir = project.state_dir()
    for cell in cells:
        require_playable(cell, None if cluster is None else cluster.settings(), state_dir)
    with one_run_at_a_time(state_dir, purpose):
        server = running_server(state_dir)
        if server is not None:
            require_target(server, target)
            require_healthy(server, state_dir)
        if cluster is not None:
            for cell in cells:
                policies = [policy.manifest for _, policy in cell.policies]
                kinds = {group.scenario.consumer.kind for group in cell.groups}
                cluster.check(
                    policies,
                    kinds,
                    has_second_group=cell.second is not None,
                    has_actions=bool(cell.scenario.actions),
                )
                cluster.check_own_consumer(cell.scenario)
            longest = max(map(log_in_seconds, cells), default=0)

            def rehearse(conf: Conf) -> None:
                cluster.require_log_in(for_seconds=longest)
                _on_cluster(console, state_dir, cluster, conf, server)

            yield rehearse
            return
        owns_bench = bench.running(state_dir) is None and not keep_bench
        # Airflow is imported while the bench starts.
        waiting = [] if server is not None else [DagProcess(state_dir)]
        try:
            state = bench.up(state_dir, attached=owns_bench, on_progress=console.say)
            connections = bench.connections(state)

            def rehearse_here(conf: Conf) -> None:
                process = waiting.pop() if waiting else None
                follow(
                    console,
                    state_dir,
                    connections,
                    conf=conf,
                    server=server,
                    process=process,
                    has_bench=lambda: bench.running(state_dir) is not None,
                )

            try:
                yield rehearse_here
            finally:
                if owns_bench:
                    bench.down(state_dir)
        finally:
            for process in waiting:
                process.end()


def log_in_seconds(cell: Cell) -> float:
    """Return how long the log-in to a cluster must last for a run of the cell.

    It is half as long again as predicted, and the time in which its pods may start. A policy that
    the simulator does not play counts by its load.
    """
    from lagbench.core.scenario.offered_load import offered_load
    from lagbench.core.simulation.prediction import expected_run_seconds, predict

    try:
        seconds = expected_run_seconds(
            cell.scenario,
            predict(cell.scenario, cell.policy),
            started_replicas=cell.policy.limits.started_replicas,
        )
    except WrongInput:
        seconds = offered_load(cell.scenario.profile).duration_seconds
    return 1.5 * seconds + _STARTS_SECONDS


def _on_cluster(
    console: Terminal,
    state_dir: Path,
    cluster: ClusterTarget,
    conf: Conf,
    server: AirflowServer | None,
) -> None:
    """Rehearse on a cluster, which stays noted until it is known to be clean."""
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.orchestrator.opened_clusters import ClusterNote, has_removed_workloads

    folder = runs_root() / str(conf["run_id"])
    connections = cluster.connections()
    # A server has its own note, and the teardown of the Dag run cleans up.
    note = ClusterNote.write(state_dir, cluster, "run") if server is None else None
    try:
        follow(console, state_dir, connections, conf=conf, server=server)
    except KeyboardInterrupt:
        if note is not None and not has_removed_workloads(folder):
            note.clean_up(console.say)
        raise
    finally:
        if note is not None and has_removed_workloads(folder):
            note.forget()


def require_disk(cell: Cell, *, runs: int = 1) -> None:
    """Reject that many runs of a cell, before anything starts, if their data would not fit.

    The broker's log of one run lies in the state folder, the tables of each in the runs folder.
    """
    from lagbench.adapters.runs.run_folder import RUNS_DIR_VARIABLE, runs_root
    from lagbench.core.simulation.plan import disk_bytes, plan_cell, table_bytes
    from lagbench.embedded import broker
    from lagbench.project import STATE_VARIABLE

    plans = [plan_cell(group.scenario, group.policy) for group in cell.groups]
    of_tables = runs * table_bytes(plans)
    of_log = disk_bytes(plans) - table_bytes(plans)
    places = (
        (project.state_dir(), of_log, STATE_VARIABLE),
        (runs_root(), of_tables, RUNS_DIR_VARIABLE),
    )
    is_one_disk = len({_disk_of(place) for place, _, _ in places}) == 1
    for place, needed, variable in places:
        whole = of_log + of_tables if is_one_disk else needed
        broker.require_disk(place, needed_bytes=whole, variable=variable)


def _disk_of(place: Path) -> int:
    existing = next(path for path in (place, *place.absolute().parents) if path.exists())
    return existing.stat().st_dev


def follow(
    console: Terminal,
    state_dir: Path,
    connections: Mapping[str, str],
    *,
    conf: Conf,
    server: AirflowServer | None,
    process: DagProcess | None = None,
    has_bench: Callable[[], bool] = lambda: True,
) -> None:
    """Start the Dag run and show it until it ends; Ctrl-C and SIGTERM stop it and clean up.

    Without its bench it is stopped: each of its waits would last until its limit.
    """
    run_id = str(conf["run_id"])
    from lagbench.adapters.runs.run_folder import RunFolder, runs_root
    from lagbench.embedded.kept_log import how_to_account
    from lagbench.orchestrator.dag_run import ProcessDagRun, ServerDagRun, triggered_id
    from lagbench.orchestrator.sealed_conf import SEALED, break_seal, seal
    from lagbench.report.outcome_files import write_stopped

    def stop(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    handed = seal(state_dir, conf, dag_run=None if server is None else triggered_id(run_id))
    dag_run: DagRun
    if server is None:
        dag_run = ProcessDagRun(state_dir, connections, handed, process)
    else:
        dag_run = ServerDagRun(server, state_dir, handed)
    folder = runs_root() / run_id
    console.say(f"run folder: {folder}")
    watched = WatchedRun(RunFolder(folder))
    try:
        dag_run.start()
        with ProgressDisplay(console, run_id) as display:
            _show_until_its_end(display, state_dir, dag_run, watched, has_bench)
    except KeyboardInterrupt:
        console.say("stopping the run and cleaning up")
        try:
            dag_run.cancel()
        except NotReady as problem:  # the interrupt goes on: nothing else may be started
            why = no_space(str(problem)) or problem
            told = f"the run was not stopped: {why}; {dag_run.where_to_look()}"
            console.say(told)
        watched.await_follower()
        if not (folder / "verdict.json").exists() and folder.is_dir():
            stopped = write_stopped(RunFolder(folder))
            console.say(f"{stopped.text}: {folder}/report.html")
        raise
    finally:
        break_seal(state_dir, handed[SEALED])
    watched.await_follower()
    watched.advance()
    if not (folder / "verdict.json").exists():
        seen = "\n".join(watched.view.failures) or dag_run.log_tail(LOG_TAIL_LINES)
        seen = no_space(seen) or seen
        raise NotReady(
            f"the run ended in phase {watched.view.phase} without a verdict.\n{seen}\n"
            f"{dag_run.where_to_look()}{how_to_account(state_dir, RunFolder(folder))}"
        )


def _show_until_its_end(
    display: ProgressDisplay,
    state_dir: Path,
    dag_run: DagRun,
    watched: WatchedRun,
    has_bench: Callable[[], bool],
) -> None:
    pause = threading.Event()
    while not dag_run.is_finished():
        watched.advance()
        display.show(watched.view)
        if not has_bench():
            with suppress(NotReady):
                dag_run.cancel()
            raise NotReady(
                f"the bench ended in phase {watched.view.phase}: "
                + (no_space("") or f"see {state_dir / 'supervisor.log'}")
            )
        pause.wait(0.25)
