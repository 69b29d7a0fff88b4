"""Start, follow and conclude the execution of an experiment, in its folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from lagbench.adapters.runs.experiment_folder import KEPT_MARK, ExperimentFolder, executions
from lagbench.adapters.runs.run_folder import RunFolder, runs_root
from lagbench.catalog.catalog_files import from_any_folder
from lagbench.catalog.conf import CELL, EXPERIMENT
from lagbench.catalog.experiments import check_experiment, load_experiment
from lagbench.core.cluster.cluster_settings import EMBEDDED
from lagbench.core.compare.cell_identity import content_digest
from lagbench.core.compare.comparable import ComparedRun
from lagbench.core.compare.experiment import (
    Execution,
    Experiment,
    PlannedRun,
    Progress,
    RunRecord,
    draw_schedule,
)
from lagbench.core.compare.experiment_figure import as_figure
from lagbench.core.compare.experiment_page import as_markdown, shown_row, tested
from lagbench.core.compare.experiment_result import (
    ExperimentResult,
    judge_experiment,
    measured_names,
    pairs_of,
)
from lagbench.core.compare.noise_floor import NoiseFloor, closest_floor
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import NotReady, WrongInput
from lagbench.results.compared_runs import keep_floor_of, read_compared, read_noise_floors
from lagbench.results.run_prediction import read_prediction

Model = TypeVar("Model", bound=BaseModel)


def start_execution(
    experiment: Experiment,
    *,
    target: str,
    started_by: Literal["command", "dag"],
    now: int,
    pairs: int | None = None,
    root: Path | None = None,
    at: ExperimentFolder | None = None,
) -> ExperimentFolder:
    """Draw and record the order of a new execution.

    :param target: ``embedded``, or a digest of the cluster's name.
    :param now: unix nanoseconds.
    :param root: the runs folder that it is kept in; None: that of this machine.
    :param at: the folder that it is kept in instead.
    :raises WrongInput: the number of pairs is not allowed.
    """
    schedule = draw_schedule(experiment, pairs=pairs, has_known_hpa=target == EMBEDDED)
    execution = Execution(
        experiment=experiment.name,
        target=target,
        started_by=started_by,
        started_at=now,
        schedule=schedule,
    )
    folder = at or ExperimentFolder.create(experiment.name, started_at=now, root=root)
    folder.files.write_json(folder.experiment, experiment.model_dump(mode="json"))
    folder.files.write_json(folder.execution, execution.model_dump(mode="json"))
    return folder


def target_label(target_name: str) -> str:
    """Return a target's name for the folder, which names no machine."""
    return EMBEDDED if target_name == EMBEDDED else f"cluster {content_digest(target_name)[:8]}"


def _digest_of(experiment: Experiment) -> str:
    """Return the digest by which a changed file is seen; texts make no difference."""
    told = {"title", "question", "hours", "schedule"}
    return content_digest(experiment.model_dump(mode="json", exclude=told))


def find_unfinished(
    experiment: Experiment, *, target: str, pairs: int | None = None, root: Path | None = None
) -> ExperimentFolder | None:
    """Return the newest execution of the command if it has no result yet; None: there is none.

    It has the same cells, target and number of pairs; after a change of the file a new one starts.
    """
    for folder in reversed(executions(experiment.name, root)):
        execution = read_execution(folder)
        same = not _differences(folder, experiment, target, pairs)
        if execution.started_by == "command" and same:
            return None if folder.result.exists() else folder
    return None


def require_same(
    folder: ExperimentFolder, experiment: Experiment, *, target: str, pairs: int | None = None
) -> None:
    """Check that the execution in a folder is one of this experiment, target and number of pairs.

    :raises WrongInput: it is another one, which a new run would mix with this one.
    """
    if other := _differences(folder, experiment, target, pairs):
        allowed = f"an empty folder, or one of the same {', '.join(other)}"
        where = "the command line"
        raise WrongInput(where=where, field="--folder", value=folder.path, allowed=allowed)


def _differences(
    folder: ExperimentFolder, experiment: Experiment, target: str, pairs: int | None
) -> list[str]:
    """Return in what an execution is not the asked one; empty: it is the same.

    A setting that did not exist when it started had what is now its default.
    """
    execution = read_execution(folder)
    same = {
        "experiment and settings": _digest_of(read_experiment(folder)) == _digest_of(experiment),
        "target": execution.target == target,
        "number of pairs": execution.schedule.pairs == (pairs or experiment.pairs),
    }
    return [what for what, is_same in same.items() if not is_same]


def read_experiment(folder: ExperimentFolder) -> Experiment:
    """Return the experiment as it was when the execution started."""
    return _model(Experiment, folder, folder.experiment)


def read_execution(folder: ExperimentFolder) -> Execution:
    """Return start, target and order of an execution."""
    return _model(Execution, folder, folder.execution)


def read_result(folder: ExperimentFolder) -> ExperimentResult | None:
    """Return the result of an execution; None: it has none yet."""
    return _model(ExperimentResult, folder, folder.result) if folder.result.exists() else None


def read_progress(folder: ExperimentFolder) -> Progress:
    """Return the recorded runs of an execution."""
    try:
        records = tuple(RunRecord.model_validate(run.record) for run in folder.runs())
    except ValidationError as broken:
        raise NotReady(f"{folder.kept.name} of {folder.path.name} is broken: {broken}") from broken
    return Progress(read_execution(folder).schedule, records)


def record_order(name: str, target_name: str) -> dict[str, Any]:
    """Check the cells of an experiment, start an execution for a Dag; return its folder and confs.

    :raises WrongInput: a cell cannot run.
    """
    experiment, target = load_experiment(name), target_label(target_name)
    check_experiment(experiment)
    folder = start_execution(experiment, target=target, started_by="dag", now=time.time_ns())
    return {"folder": str(folder.path), "confs": confs_of(folder)}


def confs_of(folder: ExperimentFolder) -> dict[str, dict[str, Any]]:
    """Return the conf of scenario_run for each planned run of an execution, by its key."""
    found = read_experiment(folder)
    return {
        run.key: {
            "scenario": from_any_folder(found.scenario),
            "overrides": run.overrides(found),
            "keep_bench": False,
            EXPERIMENT: found.name,
            CELL: run.cell,
            **({"policy": from_any_folder(policy)} if (policy := run.policy(found)) else {}),
        }
        for run in read_execution(folder).schedule.runs
    }


def is_kept(folder: ExperimentFolder, key: str) -> bool:
    """Return whether nothing more is to be measured for a planned run."""
    return key not in [run.key for run in read_progress(folder).missing]


def record_run(
    folder: ExperimentFolder, planned: PlannedRun, run: RunFolder, *, now: int
) -> RunRecord:
    """Keep the measures of a run that has ended, and record it at ``now`` (unix ns).

    :raises NotReady: the run has no verdict or no measures.
    """
    verdict = run.read_model(run.verdict, Verdict)
    lacks = verdict.why_no_result(measured_names(read_experiment(folder)))
    others = (*verdict.deciding, *verdict.judged_without)
    prediction = read_prediction(run)
    after = None if prediction is None else prediction.after
    record = RunRecord(
        pair=planned.pair,
        cell=planned.cell,
        attempt=len(read_progress(folder).attempts(planned)) + 1,
        run_id=run.run_id,
        verdict=verdict.status,
        reasons=tuple(dict.fromkeys((*lacks, *others))),
        began_at=run.read_json(run.manifest)["created_at"],
        ended_at=now,
        hpa_sync_at_seconds=None if after is None else after.hpa_sync_at_seconds,
        is_result=not lacks,
    )
    folder.keep(run, record.model_dump(mode="json"))
    return record


def conclude(folder: ExperimentFolder, *, root: Path | None = None) -> ExperimentResult:
    """Judge a finished execution, and write result.json, result.md and result.svg.

    An A/A experiment also renews the noise floor of its cell; any other shows the closest one.

    :param root: the runs folder, which has the noise floors; None: that of this machine.
    :raises NotReady: runs are missing.
    """
    progress = read_progress(folder)
    if not progress.is_finished:
        missing = ", ".join(run.key for run in progress.missing[:4])
        raise NotReady(f"{len(progress.missing)} runs are missing: {missing} …")
    runs = _measured_runs(folder, progress)
    experiment = read_experiment(folder)
    noise, notes = _noise(root or runs_root(), experiment, progress, runs)
    result = judge_experiment(experiment, read_execution(folder), progress, runs, noise)
    result = result.model_copy(update={"notes": (*notes, *result.notes)})
    folder.files.write_json(folder.result, result.model_dump(mode="json"))
    figure = as_figure(result)
    if figure is None:
        folder.figure.unlink(missing_ok=True)  # of an earlier judgement
    else:
        folder.files.write_text(folder.figure, figure)
    page = as_markdown(result, None if figure is None else folder.figure.name)
    folder.files.write_text(folder.page, page)
    return result


def write_result(experiment_folder: str) -> dict[str, Any]:
    """Conclude the execution in a folder; return its page, differences and notes in words."""
    folder = ExperimentFolder(Path(experiment_folder))
    result = conclude(folder)
    differences = [
        f"{comparison.second} minus {comparison.first}: {found.heading}: {found.text}"
        for comparison in result.comparisons
        for found in tested(comparison.differences)
    ]
    return {
        "result": str(folder.page),
        "has_gap": result.has_gap,
        "differences": differences,
        "shown": [" ".join(shown_row(found)) for found in result.shown],
        "notes": list(result.notes),
    }


def _measured_runs(
    folder: ExperimentFolder, progress: Progress
) -> dict[tuple[int, str], ComparedRun]:
    measured = {
        record.run_id: (record.pair, record.cell)
        for run in progress.schedule.runs
        if (record := progress.measured(run)) is not None
    }
    runs = {}
    for kept in folder.runs():
        if kept.run_id in measured:
            with kept.unpacked() as run:
                runs[measured[kept.run_id]] = read_compared(run)
    return runs


def is_execution(name: str) -> bool:
    """Return whether a name is the folder of an execution, or FOLDER#CELL."""
    return ExperimentFolder(Path(name.partition(KEPT_MARK)[0]).absolute()).is_started


def read_cell(name: str) -> dict[int, ComparedRun]:
    """Return the measured runs of a cell by seed: FOLDER#CELL, or a FOLDER with one cell.

    :raises WrongInput: the folder has no such cell, or several and none is named.
    """
    path, _, cell = name.partition(KEPT_MARK)
    folder = ExperimentFolder(Path(path).absolute())
    cells = [each.name for each in read_experiment(folder).cells]
    if not cell and len(cells) == 1:
        cell = cells[0]
    if cell not in cells:
        allowed = f"FOLDER{KEPT_MARK}CELL with one of {', '.join(cells)}"
        raise WrongInput(where="compare", field="execution", value=name, allowed=allowed)
    runs = _measured_runs(folder, read_progress(folder))
    return {run.measures.seed: run for (_, of), run in runs.items() if of == cell}


def _noise(
    root: Path,
    experiment: Experiment,
    progress: Progress,
    runs: Mapping[tuple[int, str], ComparedRun],
) -> tuple[NoiseFloor | None, tuple[str, ...]]:
    """Return the noise floor, and a note on it; nothing where nothing is tested."""
    if experiment.kind == "identity":
        return None, ()
    first, second = (cell.name for cell in experiment.cells[:2])
    pairs, _ = pairs_of(experiment, progress, runs, (first, second))
    if not pairs:
        return None, ()
    if experiment.is_noise_floor:
        try:
            return keep_floor_of(root, tuple(pairs.values())), ("the noise floor was renewed",)
        except WrongInput as refused:
            return None, (f"the noise floor was not renewed: {refused}",)
    found = closest_floor(read_noise_floors(root), *next(iter(pairs.values())))
    if found is None:
        return None, ("no noise floor is known for this load, machine and versions",)
    return found, (f"noise floor: {found.text}",)


def _model(kind: type[Model], folder: ExperimentFolder, path: Path) -> Model:
    try:
        return kind.model_validate_json(folder.files.read_text(path))
    except ValidationError as broken:
        raise NotReady(f"{path.name} of {folder.path.name} is broken: {broken}") from broken
