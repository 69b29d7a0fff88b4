"""Rehearse cells on a bench or a cluster: hold it, start each Dag run, show it until it ends."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from lagbench import project
from lagbench.cli.machine_faults import no_space
from lagbench.cli.terminal import Terminal
from lagbench.cli.watched_run import ProgressDisplay, WatchedRun
from lagbench.errors import NotReady, WrongInput
from localkube.processes import end_process

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell
    from lagbench.orchestrator.airflow_environment import DagProcess
    from lagbench.orchestrator.airflow_server import AirflowServer
    from lagbench.orchestrator.dag_run import DagRun
    from lagbench.orchestrator.target import ClusterTarget

LOG_TAIL_LINES = 25
STOP_GRACE_SECONDS = 60
"""A run that is asked to end stops its Dag (20 s at most) and its bench; the clean-up of a cluster
takes additional time."""
_STARTS_SECONDS = 900.0
"""For the starts of a run's pods on a cluster: each may take 300 s, some at the same time."""
Conf = dict[str, Any]
Rehearse = Callable[[Conf], None]
"""Rehearse the cell of a conf until it has a verdict; ``NotReady`` if it ends without one."""


@contextmanager
def one_run_at_a_time(state_dir: Path, purpose: str = "a run") -> Iterator[None]:
    """Hold the bench for one run, or for work that excludes runs; others fail at once."""
    project.make_state_dir(state_dir)
    with _lock_file(state_dir).open("a+") as lock:
        if not _take(lock):
            pid, theirs = _holder(lock)
            raise NotReady(
                f"{theirs} (pid {pid}) uses this bench; wait for its end, stop it with Ctrl-C "
                "there, or stop everything with lagbench down"
            )
        lock.truncate(0)
        lock.write(f"{os.getpid()} {purpose}")
        lock.flush()
        yield


def stop_running_run(
    state_dir: Path,
    *,
    grace_seconds: float = STOP_GRACE_SECONDS,
    say: Callable[[str], None] = lambda _: None,
) -> str | None:
    """Stop the command that holds the bench, as Ctrl-C does; return its purpose, None: none did."""
    if not _lock_file(state_dir).exists():
        return None
    with _lock_file(state_dir).open("a+") as lock:
        if _take(lock):
            return None
        pid, purpose = _holder(lock)
    if not pid.isdigit():
        raise NotReady(f"a run holds {_lock_file(state_dir)} but does not name its process")
    say(f"asking {purpose} (pid {pid}) to end, for {grace_seconds:.0f} s at most")
    if not end_process(int(pid), grace_seconds=grace_seconds):
        say(f"{purpose} (pid {pid}) did not end in time and was killed")
    return purpose


def _lock_file(state_dir: Path) -> Path:
    return state_dir / "run.lock"


def _take(lock: TextIO) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _holder(lock: TextIO) -> tuple[str, str]:
    """Return the holder's process and purpose."""
    lock.seek(0)
    pid, _, purpose = lock.read().strip().partition(" ")
    return pid, purpose or "a run"


@contextmanager
def opened_target(
    console: Terminal,
    target: str,
    target_settings: Path | None,
    cells: Sequence[Cell],
    *,
    keep_bench: bool = False,
    purpose: str = "a run",
    seconds: float | None = None,
) -> Iterator[Rehearse]:
    """Hold the target for one command, and provide the function that rehearses there.

    ``seconds``: how long the one run of the command takes, as predicted.
    """
    from lagbench.orchestrator.airflow_server import require_healthy, require_target, running_server
    from lagbench.orchestrator.target import find_target, require_playable

    cluster, state_dir = find_target(target, target_settings), project.state_dir()
    for cell in cells:
        require_playable(cell, None if cluster is None else cluster.settings(), state_dir)
    with one_run_at_a_time(state_dir, purpose):
        server = running_server(state_dir)
        if server is not None:
            require_target(server, target)
            require_healthy(server, state_dir)
        if cluster is None:
            with _bench(console, server, seconds, keep_bench=keep_bench) as rehearse:
                yield rehearse
        else:
            yield _on_cluster(console, cluster, server, cells)


@contextmanager
def _bench(
    console: Terminal, server: AirflowServer | None, seconds: float | None, *, keep_bench: bool
) -> Iterator[Rehearse]:
    """Bring the bench up, and down again if it was not up before."""
    from lagbench.embedded import bench
    from lagbench.orchestrator.airflow_environment import DagProcess

    state_dir = project.state_dir()
    owns_bench = bench.running(state_dir) is None and not keep_bench
    began = [time.monotonic()]  # the first run's prediction includes the bench's start
    # Airflow is imported while the bench starts.
    waiting = [] if server is not None else [DagProcess(state_dir)]
    try:
        state = bench.up(state_dir, attached=owns_bench, on_progress=console.say)
        connections = bench.connections(state)

        def rehearse(conf: Conf) -> None:
            follow(
                console,
                connections,
                conf=conf,
                server=server,
                process=waiting.pop() if waiting else None,
                has_bench=lambda: bench.running(state_dir) is not None,
                seconds=seconds,
                began=began.pop() if began else None,
            )

        try:
            yield rehearse
        finally:
            if owns_bench:
                bench.down(state_dir)
    finally:
        for process in waiting:
            process.end()


def _on_cluster(
    console: Terminal, cluster: ClusterTarget, server: AirflowServer | None, cells: Sequence[Cell]
) -> Rehearse:
    """Check the cluster for all cells; it stays noted until it is known to be clean."""
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.core.hpa.controller_flags import followed_version
    from lagbench.core.policy.policy import require_kubernetes
    from lagbench.orchestrator.opened_clusters import ClusterNote, has_removed_workloads

    version = cluster.kubernetes()
    if followed_version(version) not in version:
        console.warn(f"Kubernetes {version} is followed as {followed_version(version)}")
    for cell in cells:
        for _, policy in cell.policies:
            require_kubernetes(policy, version)
        cluster.check(
            [policy.manifest for _, policy in cell.policies],
            {group.scenario.consumer.kind for group in cell.groups},
            has_second_group=cell.second is not None,
            has_actions=bool(cell.scenario.actions),
        )
        cluster.check_own_consumer(cell.scenario)
    longest = max(map(log_in_seconds, cells), default=0)

    def rehearse(conf: Conf) -> None:
        cluster.require_log_in(for_seconds=longest)
        folder, connections = runs_root() / str(conf["run_id"]), cluster.connections()
        # A server has its own note, and the teardown of the Dag run cleans up.
        note = None if server else ClusterNote.write(project.state_dir(), cluster, "run")
        try:
            follow(console, connections, conf=conf, server=server)
        except KeyboardInterrupt:
            if note is not None and not has_removed_workloads(folder):
                note.clean_up(console.say)
            raise
        finally:
            if note is not None and has_removed_workloads(folder):
                note.forget()

    return rehearse


def log_in_seconds(cell: Cell) -> float:
    """Return how long the log-in to a cluster must last for a run of the cell.

    It is half as long again as predicted, and the time in which its pods may start.
    """
    return 1.5 * run_seconds(cell, phases=None) + _STARTS_SECONDS


def run_seconds(cell: Cell, *, phases: int | None = 1) -> float:
    """Return how long a run takes; of a policy that the simulator does not play, its load alone."""
    from lagbench.core.scenario.offered_load import offered_load

    try:
        from lagbench.report.plan_rows import predicted_run

        return predicted_run(cell, phases=phases)[1]
    except WrongInput:
        return offered_load(cell.scenario.profile).duration_seconds


def require_disk(cell: Cell, *, runs: int = 1) -> None:
    """Reject that many runs of a cell, before anything starts, if their data would not fit.

    The broker's log of one run lies in the state folder, the tables of each in the runs folder.
    """
    from lagbench.adapters.runs.run_folder import RUNS_DIR_VARIABLE, runs_root
    from lagbench.core.simulation.plan import disk_bytes, plan_cell, table_bytes
    from lagbench.embedded import broker

    plans = [plan_cell(group.scenario, group.policy) for group in cell.groups]
    of_tables, of_log = runs * table_bytes(plans), disk_bytes(plans) - table_bytes(plans)
    places = (
        (project.state_dir(), of_log, project.STATE_VARIABLE),
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
    connections: Mapping[str, str],
    *,
    conf: Conf,
    server: AirflowServer | None,
    process: DagProcess | None = None,
    has_bench: Callable[[], bool] = lambda: True,
    seconds: float | None = None,
    began: float | None = None,
) -> None:
    """Start the Dag run and show it until it ends; Ctrl-C and SIGTERM stop it and clean up.

    Without its bench it is stopped: each of its waits would last until its limit.
    """
    from lagbench.adapters.runs.run_folder import RunFolder, runs_root
    from lagbench.cli.verdict_table import print_stopped
    from lagbench.embedded.kept_log import how_to_account
    from lagbench.orchestrator.dag_run import ProcessDagRun, ServerDagRun, triggered_id
    from lagbench.orchestrator.sealed_conf import SEALED, break_seal, seal
    from lagbench.report.stopped_run import write_stopped

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    state_dir, run_id = project.state_dir(), str(conf["run_id"])
    handed = seal(state_dir, conf, dag_run=None if server is None else triggered_id(run_id))
    dag_run: DagRun
    if server is None:
        dag_run = ProcessDagRun(state_dir, connections, handed, process)
    else:
        dag_run = ServerDagRun(server, state_dir, handed)
    folder = RunFolder(runs_root() / run_id)
    console.say(f"run folder: {folder.path}")
    watched = WatchedRun(folder)
    try:
        dag_run.start()
        with ProgressDisplay(console, run_id, seconds, began) as display:
            _show_until_its_end(display, dag_run, watched, has_bench)
    except KeyboardInterrupt:
        console.say("stopping the run and cleaning up")
        try:
            dag_run.cancel()
        except NotReady as problem:  # the interrupt goes on: nothing else may be started
            why = no_space(str(problem)) or problem
            console.say(f"the run was not stopped: {why}; {dag_run.where_to_look()}")
        watched.await_follower()
        if not folder.verdict.exists() and folder.path.is_dir():
            run = write_stopped(folder)
            console.say(f"{run.text}: {folder.report}")
            print_stopped(console, run)
        raise
    finally:
        break_seal(state_dir, handed[SEALED])
    watched.await_follower()
    watched.advance()
    if not folder.verdict.exists():
        seen = "\n".join(watched.view.failures) or dag_run.log_tail(LOG_TAIL_LINES)
        raise NotReady(
            f"the run ended in phase {watched.view.phase} without a verdict.\n"
            f"{no_space(seen) or seen}\n{dag_run.where_to_look()}"
            f"{how_to_account(state_dir, folder)}"
        )


def _show_until_its_end(
    display: ProgressDisplay, dag_run: DagRun, watched: WatchedRun, has_bench: Callable[[], bool]
) -> None:
    pause = threading.Event()
    while not dag_run.is_finished():
        watched.advance()
        display.show(watched.view)
        if not has_bench():
            with suppress(NotReady):
                dag_run.cancel()
            log = project.state_dir() / "supervisor.log"
            why = no_space("") or f"see {log}"
            raise NotReady(f"the bench ended in phase {watched.view.phase}: {why}")
        pause.wait(0.25)
