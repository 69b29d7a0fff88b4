"""Pin and find the baseline of a cell: the reference run of the cell's nightly rehearsals.

A baseline is marked by ``baseline.json`` in its own run folder. Of several in a cell the one pinned
last counts; deleting its folder restores the previous one.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

from lagbench.adapters.runs.run_folder import RunFolder, list_runs
from lagbench.core.compare.cell_identity import cell_id
from lagbench.core.measures.model import MeasureModel
from lagbench.errors import LagbenchError
from lagbench.results.read_run import read_scenario

BASELINE_FILE = "baseline.json"
CELL_FIELD = "cell"
"""Field of the manifest: the digests of the policy's content and of the target's name."""


class Baseline(MeasureModel):
    """The record of a cell's baseline: its run, its start and the reason."""

    run_id: str
    cell: str
    pinned_at: int
    reason: Literal["first pass", "accepted"]


def cell_of(folder: RunFolder) -> str | None:
    """Return the digest of the run's cell; None if its folder does not show it.

    It is recomputed from the folder: a default that changes later makes another cell.
    """
    with suppress(LagbenchError, KeyError, TypeError):
        manifest = folder.read_json(folder.manifest)
        return cell_id(
            read_scenario(folder),
            policy_digest=str(manifest[CELL_FIELD]["policy"]),
            target_digest=str(manifest[CELL_FIELD]["target"]),
            fidelity=manifest["fidelity"],
        )
    return None


def pin_baseline(
    folder: RunFolder, *, cell: str, reason: Literal["first pass", "accepted"], now: int
) -> Baseline:
    """Make the run the baseline of its cell from ``now`` (unix nanoseconds) on."""
    baseline = Baseline(run_id=folder.run_id, cell=cell, pinned_at=now, reason=reason)
    folder.write_json(BASELINE_FILE, baseline.model_dump(mode="json"))
    return baseline


def read_baseline(folder: RunFolder) -> Baseline | None:
    """Return the folder's record as a baseline; None: it never was one."""
    with suppress(LagbenchError, ValueError):
        baseline = folder.read_model(BASELINE_FILE, Baseline)
        # A folder that was copied, or whose scenario was changed, is not a baseline of that cell.
        if baseline.run_id == folder.run_id and baseline.cell == cell_of(folder):
            return baseline
    return None


def pinned_baselines(root: Path) -> dict[str, Baseline]:
    """Return the current baseline of each cell."""
    folders = [RunFolder(root / summary.run_id) for summary in list_runs(root)]
    marked = [folder for folder in folders if (folder.path / BASELINE_FILE).exists()]
    every = [found for folder in marked if (found := read_baseline(folder)) is not None]
    every.sort(key=lambda baseline: (baseline.pinned_at, baseline.run_id))
    return {baseline.cell: baseline for baseline in every}
