"""Say in the run folder which step the job is at, and how many of its tasks are done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lagbench.shared_with_spark.job_progress import PROGRESS_FILE, STEPS, each_second
from lagbench_spark.run_folder import RunFolder


def begin(folder: RunFolder, step: str) -> None:
    """Name the Spark jobs that follow, here and in Spark's own pages."""
    folder.session.sparkContext.setJobGroup(_group(folder, step), STEPS[step])


@contextmanager
def reported(folder: RunFolder) -> Iterator[None]:
    """Keep the file up to date during the block."""
    last: list[dict[str, Any] | None] = [None]

    def report() -> None:
        now = _progress(folder)
        if now != last[0]:
            last[0] = now
            folder.write_json(PROGRESS_FILE, now or {})

    try:
        with each_second(report):
            yield
    finally:
        folder.remove(PROGRESS_FILE)


def _group(folder: RunFolder, step: str) -> str:
    return f"{folder.location} {step}"  # the job is warmed up in another folder


def _progress(folder: RunFolder) -> dict[str, Any] | None:
    tracker = folder.session.sparkContext.statusTracker()
    for step in reversed(STEPS):
        jobs = tracker.getJobIdsForGroup(_group(folder, step))
        job = tracker.getJobInfo(max(jobs)) if jobs else None
        if job is not None:
            stages = [tracker.getStageInfo(stage) for stage in job.stageIds]
            known = [stage for stage in stages if stage is not None]
            done = sum(stage.numCompletedTasks for stage in known)
            return {"step": step, "done": done, "of": sum(stage.numTasks for stage in known)}
    return None
