"""``lagbench experiment``: run the cells of an experiment by pairs, over days if need be."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from lagbench.cli.cell_options import TargetOption, TargetSettingsOption
from lagbench.cli.rehearsal import Rehearse, opened_target, require_disk
from lagbench.errors import ExitCode, NotReady

if TYPE_CHECKING:
    from lagbench.adapters.runs.experiment_folder import ExperimentFolder
    from lagbench.catalog.catalog import Cell
    from lagbench.core.experiment import Experiment, PlannedRun, Progress
    from lagbench.core.experiment.result import ExperimentResult

MOST_TRIES = 2
"""A run without a verdict is tried again once; then the bench needs a look."""
PairsOption = Annotated[
    int | None, typer.Option(help="6, 8 or 12 pairs instead of the file's number.")
]


def experiment(
    name: Annotated[
        str | None,
        typer.Argument(help="A name from the catalog, or a YAML file; none: list them."),
    ] = None,
    *,
    pairs: PairsOption = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Keep the execution here, for example in a repository, and continue it from here; "
            "default: a folder of its own in runs/_experiments."
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the hours and the order, and start nothing.")
    ] = False,
    target: TargetOption = "embedded",
    target_settings: TargetSettingsOption = None,
) -> int:
    """Compare cells by pairs of runs; the same command continues a stopped experiment."""
    from lagbench.catalog.experiments import check_experiment, load_experiment
    from lagbench.cli.experiment_tables import print_experiments, print_hours, print_order
    from lagbench.core.cluster import EMBEDDED
    from lagbench.core.experiment import draw_schedule
    from lagbench.results.experiments import read_progress, read_result, target_label

    console = Console()
    if name is None:
        print_experiments(console)
        return ExitCode.PASS
    found = load_experiment(name)
    cells = check_experiment(found)
    label = target_label(target)
    schedule = draw_schedule(found, pairs=pairs, has_known_hpa=label == EMBEDDED)
    unfinished = _unfinished(found, label, pairs, folder)
    progress = None if unfinished is None else read_progress(unfinished)
    print_hours(console, found, schedule, progress)
    if plan:
        print_order(console, found, schedule, progress)
        return ExitCode.PASS
    if unfinished is not None and (result := read_result(unfinished)) is not None:
        return _show(console, unfinished, result)
    if unfinished is not None and progress is not None and progress.is_finished:
        return _conclude(console, unfinished)  # it was stopped before its result
    missing = schedule.runs if progress is None else progress.missing
    require_disk(cells[missing[0].cell], runs=len(missing))  # as if all had its load
    with opened_target(
        console,
        target=target,
        target_settings=target_settings,
        cells=_effective(found, missing),
        purpose=f"experiment {found.name}",
    ) as rehearse:
        execution = unfinished or _start(found, label, pairs, folder)
        console.print(f"experiment folder: {execution.path}", highlight=False, soft_wrap=True)
        try:
            _run_missing(console, found, execution, rehearse)
        except KeyboardInterrupt:
            _say_how_to_go_on(console, read_progress(execution))
            raise
    return _conclude(console, execution)


def _unfinished(
    found: Experiment, label: str, pairs: int | None, path: Path | None
) -> ExperimentFolder | None:
    """Return the execution that the command continues; in ``path`` also one that has its result."""
    from lagbench.adapters.runs.experiment_folder import ExperimentFolder
    from lagbench.results.experiments import find_unfinished, require_same

    if path is None:
        return find_unfinished(found, target=label, pairs=pairs)
    kept = ExperimentFolder(path.absolute())
    if not kept.is_started:
        return None
    require_same(kept, found, target=label, pairs=pairs)
    return kept


def _start(found: Experiment, label: str, pairs: int | None, path: Path | None) -> ExperimentFolder:
    from lagbench.adapters.runs.experiment_folder import ExperimentFolder
    from lagbench.results.experiments import start_execution

    at = None if path is None else ExperimentFolder(path.absolute())
    now = time.time_ns()
    return start_execution(found, target=label, started_by="command", now=now, pairs=pairs, at=at)


def _effective(found: Experiment, missing: Sequence[PlannedRun]) -> list[Cell]:
    """Return each cell as one of its missing runs has it, with a phase if that is fixed."""
    from lagbench.catalog.catalog import checked_cell

    return [
        checked_cell(found.scenario, policy=run.policy(found), overrides=run.overrides(found))
        for run in {run.cell: run for run in missing}.values()
    ]


def _run_missing(
    console: Console, found: Experiment, folder: ExperimentFolder, rehearse: Rehearse
) -> None:
    """Rehearse and record each missing run, in the recorded order."""
    from lagbench.adapters.runs.run_folder import RunFolder, runs_root
    from lagbench.results.experiments import read_progress, record_run

    while missing := (progress := read_progress(folder)).missing:
        run = missing[0]
        again = ", repeated" if progress.attempts(run) else ""
        console.print(
            f"\nrun {progress.done + 1} of {len(progress.schedule.runs)}: pair {run.pair}, "
            f"cell {run.cell}, seed {run.seed}{again}",
            style="bold",
            highlight=False,
        )
        run_id = _rehearsed(console, found, run, rehearse)
        ended = RunFolder(runs_root() / run_id)
        record = record_run(folder, run, ended, now=time.time_ns())
        reason = f": {record.reasons[0]}" if record.reasons else ""
        console.print(f"{record.verdict}{reason}", highlight=False, markup=False, soft_wrap=True)


def _rehearsed(console: Console, found: Experiment, run: PlannedRun, rehearse: Rehearse) -> str:
    """Return the id of the run when it has a verdict; try again once if it ends without one."""
    for number in range(1, MOST_TRIES + 1):
        conf = _conf(found, run)
        try:
            rehearse(conf)
        except NotReady as error:
            if number == MOST_TRIES:
                raise
            console.print(f"no result, once more: {error}", markup=False, highlight=False)
        else:
            break
    return str(conf["run_id"])


def _conf(found: Experiment, run: PlannedRun) -> dict[str, Any]:
    """Return the conf of the run's Dag run."""
    from lagbench.catalog.catalog_files import from_any_folder
    from lagbench.core.scenario import new_run_id

    run_id = new_run_id(
        Path(found.scenario).stem, planned_at=datetime.now(UTC), unique_digits=secrets.token_hex(2)
    )
    conf: dict[str, Any] = {"scenario": from_any_folder(found.scenario), "run_id": run_id}
    conf |= {"keep_bench": True, "overrides": run.overrides(found)}
    policy = run.policy(found)
    return conf if policy is None else conf | {"policy": from_any_folder(policy)}


def _say_how_to_go_on(console: Console, progress: Progress) -> None:
    console.print(
        f"{progress.done} of {len(progress.schedule.runs)} runs are done and kept; the same "
        "command continues with the next run",
        highlight=False,
        soft_wrap=True,
    )


def _conclude(console: Console, folder: ExperimentFolder) -> int:
    """Write and print the result."""
    from lagbench.results.experiments import conclude

    return _show(console, folder, conclude(folder))


def _show(console: Console, folder: ExperimentFolder, result: ExperimentResult) -> int:
    """Print the result; a pair that is missing makes it undetermined."""
    from lagbench.cli.experiment_tables import print_result

    print_result(console, result)
    console.print(f"\nresult: {folder.page}", highlight=False, soft_wrap=True)
    return ExitCode.UNDETERMINED if result.has_gap else ExitCode.PASS
