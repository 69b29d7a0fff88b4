"""Read runs for a comparison, and keep the noise floors of cells."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.comparable import ComparedRun
from lagbench.core.compare.environment import Environment
from lagbench.core.compare.noise_floor import NoiseFloor, noise_floor
from lagbench.core.compare.sides import RunPair, require_comparable
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import MeasureModel
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import WrongInput
from lagbench.results.baseline import CELL_FIELD
from lagbench.results.read_run import read_scenario

NOISE_FLOORS_FILE = "noise_floors.json"
"""In the runs folder, beside the run folders."""
Model = TypeVar("Model", bound=BaseModel)


class NoiseFloors(MeasureModel):
    """The noise floors that were measured: the newest of each cell, machine and versions."""

    floors: tuple[NoiseFloor, ...] = ()


def read_compared(folder: RunFolder) -> ComparedRun:
    """Return the run as a comparison sees it.

    :raises NotReady: it has no manifest or no measures yet.
    :raises WrongInput: a file of the folder is not what lagbench writes.
    """
    manifest = folder.read_json(folder.manifest)
    cell = manifest.get(CELL_FIELD) or {}
    verdict = None
    if folder.verdict.exists():
        verdict = _model(Verdict, folder.read_json(folder.verdict), folder.verdict)
    return ComparedRun(
        run_id=folder.run_id,
        scenario=read_scenario(folder),
        target=cell.get("target"),
        environment=Environment.of_manifest(manifest),
        verdict=verdict,
        measures=_model(Measures, folder.read_json(folder.measures), folder.measures),
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
    return _model(NoiseFloors, RunFolder(root).read_json(path), path).floors


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
    kept = [other for other in read_noise_floors(root) if not _is_replaced(other, floor)]
    every = NoiseFloors(floors=(*kept, floor))
    RunFolder(root).write_json(NOISE_FLOORS_FILE, every.model_dump(mode="json"))
    return floor


def _is_replaced(other: NoiseFloor, floor: NoiseFloor) -> bool:
    return (other.load, other.policy_digest, other.environment) == (
        floor.load,
        floor.policy_digest,
        floor.environment,
    )


def _model(kind: type[Model], content: object, path: Path) -> Model:
    try:
        return kind.model_validate(content)
    except ValidationError as broken:
        first = broken.errors()[0]
        raise WrongInput(
            where=f"{path.parent.name}/{path.name}",
            field=".".join(str(part) for part in first["loc"]) or "content",
            value=first["input"],
            allowed=first["msg"],
        ) from broken
