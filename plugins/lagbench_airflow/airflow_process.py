"""Find the Airflow that runs a task: it lives as long as its runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath

import psutil

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
    return max((place for place, words in enumerate(commands) if _is_airflow(words)), default=0)


def _is_airflow(words: Sequence[str]) -> bool:
    """Return whether a process is Airflow's; it may have replaced its command by a title."""
    return _SUPERVISOR in words or any(
        PurePath(word.split(" ")[0]).name == "airflow" for word in words
    )


def _words(process: psutil.Process) -> Sequence[str]:
    try:
        found: list[str] = process.cmdline()
    except psutil.Error:  # it has ended, or is not ours to see
        return ()
    return found
