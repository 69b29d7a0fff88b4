"""Find the Airflow that runs a task: it lives as long as its runs."""

from __future__ import annotations

import os
from collections.abc import Sequence

import psutil

from lagbench.orchestrator.airflow_supervisor import is_airflow

_SUPERVISOR = "lagbench.orchestrator.airflow_supervisor"


def airflow_pid() -> int:
    """Return the outermost process of Airflow above this task; this process if none is above it.

    With ``airflow dags test`` that is the task's own process, else the scheduler, the worker of an
    executor, or what starts a scheduler that has ended again (``lagbench ui``).
    """
    own = psutil.Process(os.getpid())
    line = [own, *own.parents()]
    return line[outermost_airflow([_words(process) for process in line])].pid


def outermost_airflow(commands: Sequence[Sequence[str]]) -> int:
    """Return the last place with a command of Airflow, 0 if there is none; the task is first."""
    of_airflow = [
        place for place, words in enumerate(commands) if _SUPERVISOR in words or is_airflow(words)
    ]
    return max(of_airflow, default=0)


def _words(process: psutil.Process) -> Sequence[str]:
    try:
        found: list[str] = process.cmdline()
    except psutil.Error:  # it has ended, or is not ours to see
        return ()
    return found
