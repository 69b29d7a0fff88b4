"""Start, follow and conclude the execution of an experiment, in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from lagbench.adapters.runs.experiment_folder import RECORD_FILE, ExperimentFolder, executions
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.cluster import EMBEDDED
from lagbench.core.compare import ComparedRun, Environment, content_digest
from lagbench.core.experiment import (
    Execution,
    Experiment,
    PlannedRun,
    Progress,
    RunRecord,
    draw_schedule,
)
from lagbench.core.experiment.result import (
    ExperimentResult,
    KeptRun,
    as_markdown,
    judge_experiment,
)
from lagbench.core.measures import Measures
from lagbench.core.verdict import Verdict
from lagbench.errors import NotReady
from lagbench.results.baseline import CELL_FIELD
from lagbench.results.prediction import read_prediction
from lagbench.results.read_run import read_scenario

Model = TypeVar("Model", bound=BaseModel)


def start_execution(
    experiment: Experiment,
    *,
    target: str,
    started_by: Literal["command", "dag"],
    now: int,
    pairs: int | None = None,
    root: Path | None = None,
) -> ExperimentFolder:
    """Draw and record the order of a new execution.

    :param target: ``embedded``, or a digest of the cluster's name.
    :param now: unix nanoseconds.
    :raises WrongInput: the number of pairs is not allowed.
    """
    schedule = draw_schedule(experiment, pairs=pairs, has_known_hpa=target == EMBEDDED)
    execution = Execution(
        experiment=experiment.name,
        digest=digest_of(experiment),
        target=target,
        started_by=started_by,
        started_at=now,
        schedule=schedule,
    )
    folder = ExperimentFolder.create(experiment.name, started_at=now, root=root)
    folder.files.write_json(folder.experiment, experiment.model_dump(mode="json"))
    folder.files.write_json(folder.execution, execution.model_dump(mode="json"))
    return folder


def target_label(target_name: str) -> str:
    """Return a target's name for the folder, which names no machine."""
    return EMBEDDED if target_name == EMBEDDED else f"cluster {content_digest(target_name)[:8]}"


def digest_of(experiment: Experiment) -> str:
    """Return the digest by which a changed file is seen; texts make no difference."""
    told = {"title", "question", "hours", "schedule"}
    return content_digest(experiment.model_dump(mode="json", exclude=told))


def find_unfinished(
    experiment: Experiment, *, target: str, pairs: int | None = None, root: Path | None = None
) -> ExperimentFolder | None:
    """Return the newest execution of the command if it has no result yet; None: there is none.

    It has the same cells, target and number of pairs; a file that was changed starts anew.
    """
    for folder in reversed(executions(experiment.name, root)):
        execution = read_execution(folder)
        is_same = (execution.digest, execution.target, execution.schedule.pairs) == (
            digest_of(experiment),
            target,
            pairs or experiment.pairs,
        )
        if execution.started_by == "command" and is_same:
            return None if folder.result.exists() else folder
    return None


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
    records = tuple(RunRecord.model_validate(run.read_json(RECORD_FILE)) for run in folder.runs())
    return Progress(read_execution(folder).schedule, records)


def record_run(
    folder: ExperimentFolder, planned: PlannedRun, run: RunFolder, *, now: int
) -> RunRecord:
    """Keep the measures of a run that has ended, and record it at ``now`` (unix ns).

    :raises NotReady: the run has no verdict or no measures.
    """
    verdict = Verdict.model_validate(run.read_json(run.verdict))
    prediction = read_prediction(run)
    after = None if prediction is None else prediction.after
    record = RunRecord(
        pair=planned.pair,
        cell=planned.cell,
        attempt=len(read_progress(folder).attempts(planned)) + 1,
        run_id=run.run_id,
        verdict=verdict.status,
        reasons=verdict.reasons,
        began_at=run.read_json(run.manifest)["created_at"],
        ended_at=now,
        hpa_sync_at_seconds=None if after is None else after.hpa_sync_at_seconds,
    )
    folder.keep(run, record.model_dump(mode="json"))
    return record


def conclude(folder: ExperimentFolder) -> ExperimentResult:
    """Judge a finished execution, and write result.json and result.md.

    :raises NotReady: runs are missing.
    """
    progress = read_progress(folder)
    if not progress.is_finished:
        missing = ", ".join(run.key for run in progress.missing[:4])
        raise NotReady(f"{len(progress.missing)} runs are missing: {missing} …")
    measured = {
        record.run_id: (record.pair, record.cell)
        for run in progress.schedule.runs
        if (record := progress.measured(run)) is not None
    }
    runs = {measured[run.run_id]: _kept(run) for run in folder.runs() if run.run_id in measured}
    result = judge_experiment(read_experiment(folder), read_execution(folder), progress, runs)
    folder.files.write_json(folder.result, result.model_dump(mode="json"))
    folder.files.write_text(folder.page, as_markdown(result))
    return result


def _kept(run: RunFolder) -> KeptRun:
    manifest = run.read_json(run.manifest)
    compared = ComparedRun(
        run_id=run.run_id,
        scenario=read_scenario(run),
        target=(manifest.get(CELL_FIELD) or {}).get("target"),
        environment=Environment.of_manifest(manifest),
        verdict=Verdict.model_validate(run.read_json(run.verdict)),
        measures=Measures.model_validate(run.read_json(run.measures)),
    )
    return KeptRun(compared, str(manifest.get("policy")))


def _model(kind: type[Model], folder: ExperimentFolder, path: Path) -> Model:
    try:
        return kind.model_validate_json(folder.files.read_text(path))
    except ValidationError as broken:
        raise NotReady(f"{path.name} of {folder.path.name} is broken: {broken}") from broken
