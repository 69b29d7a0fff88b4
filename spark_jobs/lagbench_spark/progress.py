"""Say in the run folder which step the job is at, and how many of its tasks are done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lagbench.shared_with_spark.job_progress import PROGRESS_FILE, STEPS
from lagbench_spark.run_folder import RunFolder

_LOOK_SECONDS = 1.0


def begin(folder: RunFolder, step: str) -> None:
    """Name the Spark jobs that follow, here and in Spark's own pages."""
    folder.session.sparkContext.setJobGroup(step, STEPS[step])


@contextmanager
def reported(folder: RunFolder) -> Iterator[None]:
    """Keep the file up to date during the block."""
    over = threading.Event()

    def report() -> None:
        last = None
        while not over.wait(_LOOK_SECONDS):
            now = _progress(folder)
            if now is not None and now != last:
                folder.write_json(PROGRESS_FILE, now)
                last = now

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()
        folder.remove(PROGRESS_FILE)


def _progress(folder: RunFolder) -> dict[str, Any] | None:
    tracker = folder.session.sparkContext.statusTracker()
    for step in reversed(STEPS):
        jobs = tracker.getJobIdsForGroup(step)
        job = tracker.getJobInfo(max(jobs)) if jobs else None
        if job is not None:
            stages = [tracker.getStageInfo(stage) for stage in job.stageIds]
            known = [stage for stage in stages if stage is not None]
            done = sum(stage.numCompletedTasks for stage in known)
            return {"step": step, "done": done, "of": sum(stage.numTasks for stage in known)}
    return None
