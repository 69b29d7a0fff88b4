"""lagbench's two families of errors in Airflow's terms."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import Literal

from airflow.sdk.exceptions import AirflowFailException

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.telemetry.records_of_programs import Phase
from lagbench.errors import PodsEnded, PodsRefused, WrongInput


@contextlib.contextmanager
def wrong_input_is_final() -> Iterator[None]:
    """Fail without retries on wrong input and pods that cannot work; NotReady is retried."""
    try:
        yield
    except (WrongInput, PodsRefused, PodsEnded) as error:
        raise AirflowFailException(str(error)) from error


class TaskKilled(BaseException):
    """Airflow ends the task.

    No ``Exception``: a handler of errors must not continue the work. Airflow repeats the task if it
    has retries left and was not marked as failed.
    """


@contextmanager
def ends_when_killed() -> Iterator[None]:
    """Raise ``TaskKilled`` in the body at the first SIGTERM; for the main thread.

    Airflow's own handler, which is called first, calls ``on_kill`` and returns. The task would then
    continue until it is killed after some seconds, and what it creates beside the teardown would
    stay. ``on_kill`` cannot raise instead, because Airflow calls it after a timeout, too, and a
    task that has timed out would have no retry.
    """
    before, own_pid, is_ending = signal.getsignal(signal.SIGTERM), os.getpid(), False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        if callable(before):
            before(number, frame)
        if not is_ending and os.getpid() == own_pid:
            is_ending = True
            raise TaskKilled("the task was killed (SIGTERM)")

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


PhaseState = Literal["started", "finished", "failed"]

DETAIL_LENGTH = 500

FLUSH_SECONDS = 2.0
"""A phase that Kafka does not accept within 2 s (broker down) is only in the file."""


@contextlib.contextmanager
def phase(folder: RunFolder, name: str, *, bootstrap_servers: str | None = None) -> Iterator[None]:
    """Record the start of the body's phase and its end."""
    record_phase(folder, name, "started", bootstrap_servers=bootstrap_servers)
    try:
        yield
    except BaseException as error:  # also a killed task: its phase has failed
        record_phase(folder, name, "failed", detail=str(error)[:DETAIL_LENGTH])
        raise
    record_phase(folder, name, "finished", bootstrap_servers=bootstrap_servers)


def record_phase(
    folder: RunFolder,
    name: str,
    state: PhaseState,
    *,
    bootstrap_servers: str | None = None,
    detail: str = "",
) -> None:
    """Append the phase to each group's ``phases.jsonl``.

    With ``bootstrap_servers`` also to its telemetry topic. Pass no servers before the topics exist
    or after the fence: the record would not be read there.
    """
    phase = Phase(at=time.time_ns(), source="dag", name=name, state=state, detail=detail)
    for group in folder.groups:
        _append(group, phase.at, name, state, detail)
        if bootstrap_servers is not None:
            log = _telemetry(bootstrap_servers, group.names.telemetry_topic)
            log.send(phase)
            log.flush(FLUSH_SECONDS)


@lru_cache(maxsize=2)
def _telemetry(bootstrap_servers: str, topic: str) -> TelemetryLog:
    """Return the client of a group's telemetry, as long as the process lives.

    Connections of their own for its two records took most of a second of each task.
    """
    return TelemetryLog(bootstrap_servers, topic)


def record_progress(folder: RunFolder, name: str, detail: str) -> None:
    """Append how far a phase is, for who watches the run."""
    for group in folder.groups:
        _append(group, time.time_ns(), name, "progress", detail)


def _append(folder: RunFolder, at: int, name: str, state: str, detail: str) -> None:
    """Append with one write of one line: a reader sees whole lines only."""
    line = json.dumps({"at": at, "name": name, "state": state, "detail": detail}) + "\n"
    descriptor = os.open(folder.phases, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
