"""Read runs for a comparison, and keep the noise floors of cells."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.cell_identity import Environment, cell_id
from lagbench.core.compare.comparable import ComparedRun, RunPair, require_comparable
from lagbench.core.compare.noise_floor import NoiseFloor, noise_floor
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import MeasureModel
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import LagbenchError, WrongInput
from lagbench.results.cell_run import Model, read_scenario, validated

NOISE_FLOORS_FILE = "noise_floors.json"
"""In the runs folder, beside the run folders."""


class NoiseFloors(MeasureModel):
    """The noise floors that were measured: the newest of each cell, machine and versions."""

    floors: tuple[NoiseFloor, ...] = ()


def read_compared(folder: RunFolder) -> ComparedRun:
    """Return the run as a comparison sees it.

    :raises NotReady: it has no manifest or no measures yet.
    :raises WrongInput: a file of the folder is not what lagbench writes.
    """
    manifest = folder.read_json(folder.manifest)
    cell, has_verdict = manifest.get(CELL_FIELD) or {}, folder.verdict.exists()
    return ComparedRun(
        run_id=folder.run_id,
        scenario=read_scenario(folder),
        target=cell.get("target"),
        environment=Environment.of_manifest(manifest),
        verdict=_model(Verdict, folder, folder.verdict) if has_verdict else None,
        measures=_model(Measures, folder, folder.measures),
        policy=cell.get("policy"),
        created_at=int(manifest.get("created_at") or 0),
    )


def read_noise_floors(root: Path) -> tuple[NoiseFloor, ...]:
    """Return the noise floors of a runs folder; none without the file.

    :raises WrongInput: the file is not one of noise floors.
    """
    path = root / NOISE_FLOORS_FILE
    if not path.exists():
        return ()
    return _model(NoiseFloors, RunFolder(root), path).floors


def keep_floor_of(root: Path, pairs: Sequence[RunPair]) -> NoiseFloor:
    """Measure the noise floor of A/A pairs, and keep it in the runs folder.

    It takes the place of an older one of the same cell; other machines and versions keep theirs.

    :raises WrongInput: the runs are not of one cell, or there are too few pairs; or the file is not
        one of noise floors.
    """
    require_comparable(pairs)
    policies = sorted({run.measures.policy for pair in pairs for run in pair})
    if len({run.policy for pair in pairs for run in pair}) > 1:
        raise WrongInput(
            where="noise floor", field="policies", value=", ".join(policies), allowed="one policy"
        )
    floor = noise_floor(pairs, now=time.time_ns())
    kept = [
        other
        for other in read_noise_floors(root)
        if (other.load, other.policy_digest, other.environment)
        != (floor.load, floor.policy_digest, floor.environment)
    ]
    every = NoiseFloors(floors=(*kept, floor))
    RunFolder(root).write_json(NOISE_FLOORS_FILE, every.model_dump(mode="json"))
    return floor


def _model(kind: type[Model], folder: RunFolder, path: Path) -> Model:
    return validated(kind, folder.read_json(path), where=f"{path.parent.name}/{path.name}")


BASELINE_FILE = "baseline.json"

CELL_FIELD = "cell"
"""Field of the manifest: the digests of the policy's content and of the target's name."""


class Baseline(MeasureModel):
    """The record of a cell's baseline: its run, its start and the reason.

    ``accepted_by``: the user of Airflow; None: the gate, or the command line.
    """

    run_id: str
    cell: str
    pinned_at: int
    reason: Literal["first pass", "accepted"]
    accepted_by: str | None = None


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
    folder: RunFolder,
    *,
    cell: str,
    reason: Literal["first pass", "accepted"],
    now: int,
    by: str | None = None,
) -> Baseline:
    """Make the run the baseline of its cell from ``now`` (unix nanoseconds) on."""
    baseline = Baseline(
        run_id=folder.run_id, cell=cell, pinned_at=now, reason=reason, accepted_by=by
    )
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
    marked = [RunFolder(path.parent) for path in root.glob(f"*/{BASELINE_FILE}")]
    every = [found for folder in marked if (found := read_baseline(folder)) is not None]
    every.sort(key=lambda baseline: (baseline.pinned_at, baseline.run_id))
    return {baseline.cell: baseline for baseline in every}
