"""Record the phases of a run, and how far one is, for terminal, live page and report."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.telemetry.records_of_programs import Phase
from lagbench.shared_with_spark.spark_job import PROGRESS_FILE, STEPS, each_second

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
    with folder.phases.open("ab", buffering=0) as file:
        file.write(line.encode())


@contextlib.contextmanager
def shown_progress(folder: RunFolder, phase: str, say: Callable[[str], object]) -> Iterator[None]:
    """Record the job's steps as progress of ``phase``, for terminal, live page and log.

    A job that writes elsewhere (an object store) is not seen.
    """
    file = folder.path / PROGRESS_FILE
    file.unlink(missing_ok=True)  # of a try that was killed
    of_run = f"{fenced_messages(folder):,} messages, " if folder.fence.exists() else ""
    said, steps = [f"{of_run}starting Spark"], list(STEPS)
    record_progress(folder, phase, *said)
    say(*said)

    def watch() -> None:
        # Not there yet, or of another version.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(file.read_text(encoding="utf-8"))
            done = steps.index(found["step"]) + found["done"] / max(found["of"], 1)
            now = f"{of_run}{100 * done / len(steps):.0f} %: {STEPS[found['step']]}"
            if now != said[-1]:
                said.append(now)
                record_progress(folder, phase, now)
                say(now)

    with each_second(watch):
        yield


def fenced_messages(folder: RunFolder) -> int:
    """Return the number of offsets below the fence in the events topic."""
    return sum(folder.read_json(folder.fence)["events"].values())
