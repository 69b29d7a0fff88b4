"""Add what the accounting says of itself to the phases of the run, for terminal and live page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.shared_with_spark.job_progress import PROGRESS_FILE, STEPS, each_second
from lagbench_airflow.phases import record_progress


@contextmanager
def shown_progress(folder: RunFolder, phase: str) -> Iterator[None]:
    """Record the job's steps as progress of ``phase`` during the block.

    A job that writes elsewhere (an object store) is not seen.
    """
    file = folder.path / PROGRESS_FILE
    file.unlink(missing_ok=True)  # of a try that was killed
    said = ["starting Spark"]
    record_progress(folder, phase, *said)

    def watch() -> None:
        now = _said(file)
        if now not in {"", said[-1]}:
            said.append(now)
            record_progress(folder, phase, now)

    with each_second(watch):
        yield


def _said(file: Path) -> str:
    with suppress(OSError, ValueError, KeyError, TypeError):  # not there yet, or of another version
        found = json.loads(file.read_text(encoding="utf-8"))
        return f"{STEPS[found['step']]}, {found['done']} of {found['of']} tasks"
    return ""
