"""The history of all runs: ``history.parquet`` in the runs folder, a line per judged run.

It holds all measures and the manifest's values, and outlives the run folders that housekeeping
deletes. It can be made again from the folders.
"""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from lagbench.adapters.runs.run_folder import RunFolder, list_runs
from lagbench.core.compare.cell_history import (
    LIMIT_PREFIX,
    PREDICTED_PREFIX,
    HistoryRow,
    by_cell,
    cell_history,
)
from lagbench.core.compare.cell_identity import flat_manifest
from lagbench.core.compare.earlier_runs import EarlierRuns, earlier_of
from lagbench.core.compare.noise_floor import closest_floor
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.verdict.slo import SECOND_GROUP_PREFIX
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import LagbenchError, NotReady
from lagbench.results.compared_runs import (
    CELL_FIELD,
    cell_of,
    pinned_baselines,
    read_compared,
    read_noise_floors,
)
from lagbench.results.run_prediction import read_prediction
from pod_program.shown import shown

log = logging.getLogger(__name__)

HISTORY_FILE = "history.parquet"
EARLIER_FILE = "earlier_runs.json"
_LOCK_FILE = ".history.lock"
_COLUMNS = {
    "run_id": pa.string(),
    "created_at": pa.int64(),
    "scenario": pa.string(),
    "policy": pa.string(),
    "seed": pa.int64(),
    "fidelity": pa.string(),
    "cell": pa.string(),
    "verdict": pa.string(),
    "is_invalid": pa.bool_(),
    "has_measured": pa.bool_(),
    "warnings": pa.int64(),
}
_MANIFEST = "manifest."
"""Prefix of the manifest's columns; every other column that is not above is a measure."""


def history_row(folder: RunFolder) -> HistoryRow | None:
    """Return the line of a judged run; None: there is no manifest or no verdict.

    :raises NotReady: a file of the folder is not one that lagbench writes; the message names it.
    """
    if not folder.manifest.exists() or not folder.verdict.exists():
        return None
    manifest, verdict = folder.read_json(folder.manifest), folder.read_json(folder.verdict)
    rest = {name: manifest[name] for name in manifest if name == CELL_FIELD or name not in _COLUMNS}
    has_measured = warnings = None
    measures = _measures(folder) | _predicted(folder)
    with suppress(ValidationError):
        judged = Verdict.model_validate(verdict)
        has_measured, warnings = judged.is_result(), len(judged.warnings)
        limits = {slo.name: slo.limit for slo in judged.slos if slo.limit is not None}
        measures |= {f"{LIMIT_PREFIX}{name}": limit for name, limit in limits.items()}
    if folder.second is not None:  # its measures have its name in front
        of_second = _measures(folder.second)
        measures |= {f"{SECOND_GROUP_PREFIX}{name}": value for name, value in of_second.items()}
    try:
        return HistoryRow(
            run_id=folder.run_id,
            created_at=manifest.get("created_at") or 0,
            scenario=str(manifest.get("scenario") or ""),
            policy=str(manifest.get("policy") or ""),
            seed=manifest.get("seed"),
            fidelity=str(manifest.get("fidelity") or ""),
            cell=cell_of(folder),
            verdict=verdict.get("status"),
            is_invalid=bool(verdict.get("invalid")),
            has_measured=has_measured,
            warnings=warnings,
            measures=measures,
            manifest=flat_manifest(rest),
        )
    except ValidationError as wrong:
        first = wrong.errors()[0]
        field = ".".join(map(str, first["loc"]))
        found = f"{field} is {shown(first['input'], name=field)}"
        raise NotReady(f"run {folder.reference} is not one that lagbench wrote: {found}") from wrong


def update_history(folder: RunFolder) -> None:
    """Write the run's line into the history of its runs folder, instead of an earlier one.

    A run without a verdict has none.

    A history that cannot be read is made again from the run folders. A run without a line is
    logged: the verdict does not depend on the history.
    """
    root = folder.path.parent
    try:
        row = history_row(folder)
    except LagbenchError as problem:
        log.warning("not in the history: %s", problem)
        return
    if row is None and not (root / HISTORY_FILE).exists():
        return
    with _locked(root):
        try:
            known = read_history(root)
        except NotReady:
            known, left_out = _rows_of_folders(root)
            for problem_text in left_out:
                log.warning("not in the history: %s", problem_text)
        others = [other for other in known if other.run_id != folder.run_id]
        _write(root, others if row is None else [*others, row])


def keep_earlier(folder: RunFolder) -> None:
    """Write once which earlier runs of its cell a run is shown beside; later ones change nothing.

    A history that cannot be read leaves it without any.
    """
    if (folder.path / EARLIER_FILE).exists():
        return
    root, cell = folder.path.parent, cell_of(folder) or ""
    found, noise = EarlierRuns(), dict[str, float]()
    with suppress(LagbenchError):
        if floors := read_noise_floors(root):
            run = read_compared(folder)
            floor = closest_floor(floors, run, run)
            noise = floor.widths if floor else {}
    with suppress(LagbenchError):
        rows = by_cell(read_history(root)).get(cell, [])
        pinned = pinned_baselines(root).get(cell)
        found = earlier_of(rows, folder.run_id, pinned.run_id if pinned else None, noise)
    folder.write_json(EARLIER_FILE, found.model_dump(mode="json"))


def read_earlier(folder: RunFolder) -> EarlierRuns | None:
    """Return what ``keep_earlier`` wrote; None: an older version judged the run."""
    if not (folder.path / EARLIER_FILE).exists():
        return None
    return folder.read_model(EARLIER_FILE, EarlierRuns)


class Rebuilt(NamedTuple):
    """The numbers of lines, and of those without a folder; for each run left out, why."""

    lines: int
    without_folder: int
    left_out: tuple[str, ...]


def rebuild_history(root: Path) -> Rebuilt:
    """Make the history again from the run folders.

    Lines of runs whose folder was deleted stay, unless the file cannot be read.
    """
    with _locked(root):
        rows, left_out = _rows_of_folders(root)
        there = {row.run_id for row in rows}
        deleted: list[HistoryRow] = []
        with suppress(NotReady):
            deleted = [row for row in read_history(root) if row.run_id not in there]
        gone = [row for row in deleted if not (root / row.run_id).exists()]
        _write(root, [*gone, *rows])
    return Rebuilt(len(gone) + len(rows), len(gone), tuple(left_out))


def read_history(root: Path) -> list[HistoryRow]:
    """Return the lines of the history, oldest first; none without the file.

    :raises NotReady: the file cannot be read.
    """
    path = root / HISTORY_FILE
    if not path.exists():
        return []
    try:
        return [_row(values) for values in pq.ParquetFile(path).read().to_pylist()]
    except (OSError, pa.ArrowException, ValidationError) as broken:
        raise NotReady(
            f"{HISTORY_FILE} cannot be read: {broken}; make it again: lagbench history --rebuild"
        ) from broken


def whole_history(root: Path) -> tuple[list[HistoryRow], tuple[str, ...]]:
    """Return the lines with those of judged runs that have none, and why a run is left out.

    Runs of another machine, or of an earlier version, may lie in the folder without a line.
    """
    known = read_history(root)
    added, left_out = _rows_of_folders(root, without={row.run_id for row in known})
    rows = sorted([*known, *added], key=lambda row: (row.created_at, row.run_id))
    return rows, tuple(left_out)


def change_notes(root: Path, cell: str) -> tuple[str, ...]:
    """Return a sentence for each change in the newest segment of a cell's history."""
    try:
        rows = by_cell(read_history(root)).get(cell)
    except NotReady as broken:
        return (str(broken),)
    return tuple(change.text for change in cell_history(rows).newest_changes) if rows else ()


def _rows_of_folders(
    root: Path, *, without: Collection[str] = ()
) -> tuple[list[HistoryRow], list[str]]:
    """Return the lines of the judged runs, and for each other one that has none, why."""
    rows, left_out = list[HistoryRow](), list[str]()
    for run in list_runs(root):
        if run.run_id in without:
            continue
        try:
            row = history_row(RunFolder(root / run.run_id))
        except LagbenchError as problem:
            left_out.append(str(problem))
        else:
            rows += [row] if row is not None else []
    return rows, left_out


def _measures(folder: RunFolder) -> dict[str, float | None]:
    """Return the named measures; all None if the folder has none that can be read."""
    with suppress(LagbenchError, ValidationError):
        measures = folder.read_model(folder.measures, Measures)
        return {name: measure.read(measures) for name, measure in NAMED.items()}
    return dict.fromkeys(NAMED)


def _predicted(folder: RunFolder) -> dict[str, float | None]:
    """Return the medians of the prediction with the run's phase, else of the one before it."""
    with suppress(LagbenchError):
        made = read_prediction(folder)
        if made is not None and (found := made.after or made.before) is not None:
            return {f"{PREDICTED_PREFIX}{name}": one.median for name, one in found.measures.items()}
    return {}


def _row(values: Mapping[str, Any]) -> HistoryRow:
    known: dict[str, Any] = {name: values.get(name) for name in _COLUMNS}
    measures, manifest = dict[str, Any](), dict[str, Any]()
    for name, value in values.items():
        if name.startswith(_MANIFEST):
            manifest |= {} if value is None else {name.removeprefix(_MANIFEST): value}
        elif name not in _COLUMNS:
            measures[name] = value
    return HistoryRow.model_validate({**known, "measures": measures, "manifest": manifest})


def _write(root: Path, rows: Sequence[HistoryRow]) -> None:
    """Replace the file, atomically, by the rows, oldest first."""
    ordered = sorted(rows, key=lambda row: (row.created_at, row.run_id))
    measures = dict.fromkeys([*NAMED, *(name for row in ordered for name in row.measures)])
    manifest = sorted({name for row in ordered for name in row.manifest})
    columns = {
        **{name: pa.array([getattr(r, name) for r in ordered], t) for name, t in _COLUMNS.items()},
        **{
            name: pa.array([r.measures.get(name) for r in ordered], pa.float64())
            for name in measures
        },
        **{
            f"{_MANIFEST}{name}": pa.array([r.manifest.get(name) for r in ordered], pa.string())
            for name in manifest
        },
    }
    part = root / f".{HISTORY_FILE}.part"
    pq.write_table(pa.table(columns), part)
    part.replace(root / HISTORY_FILE)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the history of a runs folder: two runs may end at the same time."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / _LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
