"""Which bench a run may stop: the one that it started, whichever try of its task did."""

from __future__ import annotations

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.embedded import bench

_FIELD = "started_bench"


def note_started_bench(folder: RunFolder) -> None:
    """Write down whose bench runs now, for the teardown and for a retry that finds it up.

    By its supervisor: a bench that somebody starts later is another one.
    """
    state = bench.running(bench.state_dir())
    if state is not None:
        folder.update_manifest(**{_FIELD: state.supervisor.model_dump()})


def is_own_bench(folder: RunFolder) -> bool:
    """Say whether the bench that runs is the one that this run has started."""
    state = bench.running(bench.state_dir())
    noted = folder.read_json(folder.manifest).get(_FIELD)
    return state is not None and noted == state.supervisor.model_dump()
