"""Add what the accounting says of itself to the phases of the run, for terminal and live page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.shared_with_spark.job_progress import PROGRESS_FILE, STEPS
from lagbench_airflow.phases import record_progress

_LOOK_SECONDS = 1.0


@contextmanager
def shown_progress(folder: RunFolder, phase: str) -> Iterator[None]:
    """Record the job's steps as progress of ``phase`` during the block.

    A job that writes elsewhere (an object store) is not seen.
    """
    over = threading.Event()
    record_progress(folder, phase, "starting Spark")

    def watch() -> None:
        last = ""
        while not over.wait(_LOOK_SECONDS):
            said = _said(folder)
            if said and said != last:
                record_progress(folder, phase, said)
                last = said

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _said(folder: RunFolder) -> str:
    with suppress(OSError, ValueError, KeyError, TypeError):  # not there yet, or of another version
        found = json.loads((folder.path / PROGRESS_FILE).read_text(encoding="utf-8"))
        return f"{STEPS[found['step']]}, {found['done']} of {found['of']} tasks"
    return ""
