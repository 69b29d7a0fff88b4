"""Run one Dag in a process of its own, as ``airflow dags test`` does, warmed up beforehand.

Airflow's modules and its execution API cost ten seconds of CPU before the first task. They need
nothing of the bench, so the process starts while the bench does, and waits for its work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lagbench.adapters.process.processes import GroupReaper, end_process, start_tied
from lagbench.orchestrator.airflow_environment import (
    airflow_environment,
    airflow_home,
    empty_temporary_folder,
    prepare_database,
)
from lagbench.project import PROJECT_ROOT

_PROGRAM = PROJECT_ROOT / "plugins" / "lagbench_airflow" / "waiting_airflow.py"


_RUNS_ALL_TASKS = "LAGBENCH_DAG_PROCESS"


def is_dag_process() -> bool:
    """Return whether this process runs all tasks of its Dag run, one after the other."""
    return os.environ.get(_RUNS_ALL_TASKS) == str(os.getpid())


class DagProcess:
    """A process that has imported Airflow and waits; it and all it starts end with this one."""

    def __init__(self, state_dir: Path) -> None:
        """Start it."""
        prepare_database(state_dir)
        empty_temporary_folder(state_dir)
        self._state_dir = state_dir
        self._log_path = airflow_home(state_dir) / "logs" / "starting.log"
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        self._reaper = GroupReaper()
        read_end, self._work = os.pipe()
        with self._log_path.open("wb") as log:
            self._process = start_tied(
                [sys.executable, "-P", str(_PROGRAM), str(read_end)],
                log=log,
                env=airflow_environment(state_dir, {}),
                pass_fds=[read_end],
            )
        os.close(read_end)
        self._reaper.watch(self._process.pid)

    def run(self, *arguments: str, connections: Mapping[str, str], log_path: Path) -> None:
        """Let it become ``airflow`` with ``arguments``; its output goes to ``log_path``."""
        self._log_path.replace(log_path)
        environment = airflow_environment(self._state_dir, connections)
        environment[_RUNS_ALL_TASKS] = str(self._process.pid)
        work = {"environment": environment, "arguments": arguments}
        # Around the pipe: it is written when it is closed. The log says why the process has ended.
        with suppress(BrokenPipeError), os.fdopen(self._work, "w") as pipe:
            pipe.write(json.dumps(work) + "\n")

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        self._reaper.restart_if_killed()
        return self._process.poll() is not None

    def end(self, *, grace_seconds: float = 0) -> None:
        """End it and all that it started."""
        end_process(self._process.pid, grace_seconds=grace_seconds)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._reaper.close()
