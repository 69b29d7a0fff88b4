"""Identify the bench that a run may stop: the one that any try of its task started."""

from __future__ import annotations

from lagbench import project
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.embedded import bench

_FIELD = "started_bench"


def note_started_bench(folder: RunFolder) -> None:
    """Record the running bench as started by this run, for the teardown and for a retry.

    It is identified by its supervisor: a bench that is started later has another one.
    """
    state = bench.running(project.state_dir())
    if state is not None:
        folder.update_manifest(**{_FIELD: state.supervisor.model_dump()})


def is_own_bench(folder: RunFolder) -> bool:
    """Return whether this run has started the running bench."""
    state = bench.running(project.state_dir())
    noted = folder.read_json(folder.manifest).get(_FIELD)
    return state is not None and noted == state.supervisor.model_dump()
