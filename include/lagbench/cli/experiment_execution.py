"""Run one experiment: its missing runs in the recorded order, then its result."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.adapters.runs.run_folder import RunFolder, runs_root
from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import from_any_folder
from lagbench.cli.experiment_tables import print_result
from lagbench.cli.rehearsal import Rehearse, opened_target, require_disk
from lagbench.cli.time_left import TimeLeft
from lagbench.core.experiment import Experiment, PlannedRun, Progress, Schedule
from lagbench.core.experiment.result import ExperimentResult
from lagbench.core.scenario import new_run_id
from lagbench.errors import ExitCode, NotReady, StillRunning
from lagbench.results.experiments import (
    conclude,
    read_progress,
    read_result,
    record_run,
    start_execution,
)

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell

MOST_TRIES = 2
"""A run without a verdict is tried again once; then the bench needs a look."""


@dataclass(frozen=True, slots=True)
class AskedExperiment:
    """A checked experiment, and the execution that the command continues, if there is one."""

    experiment: Experiment
    cells: Mapping[str, Cell]
    schedule: Schedule
    label: str  # of the target
    pairs: int | None
    path: Path | None  # the folder that was asked for
    unfinished: ExperimentFolder | None  # in ``path`` also one that has its result

    @property
    def progress(self) -> Progress | None:
        """Return the runs of the execution to continue; None: there is none."""
        return None if self.unfinished is None else read_progress(self.unfinished)

    def start(self) -> ExperimentFolder:
        """Draw and record the order of a new execution."""
        return start_execution(
            self.experiment,
            target=self.label,
            started_by="command",
            now=time.time_ns(),
            pairs=self.pairs,
            at=None if self.path is None else ExperimentFolder(self.path.absolute()),
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """The state of an experiment when the command leaves it."""

    name: str
    code: ExitCode
    text: str


def execute(
    console: Console,
    asked: AskedExperiment,
    *,
    target: str,
    target_settings: Path | None,
    time_left: TimeLeft,
) -> Ended:
    """Run what is missing and fits into the time, and print the result when nothing is.

    :raises NotReady: a run ended twice without a verdict, or the target cannot be opened.
    """
    found, progress = asked.experiment, asked.progress
    if asked.unfinished is not None and (result := read_result(asked.unfinished)) is not None:
        return _show(console, asked.unfinished, result)
    if asked.unfinished is not None and progress is not None and progress.is_finished:
        return _conclude(console, asked.unfinished)  # it was stopped before its result
    missing = asked.schedule.runs if progress is None else progress.missing
    first = progress or Progress(asked.schedule, ())
    if (lack := _lack(found, first, time_left)) is not None:
        return _stopped(console, found, first, lack)
    require_disk(asked.cells[missing[0].cell], runs=len(missing))  # as if all had its load
    with opened_target(
        console,
        target=target,
        target_settings=target_settings,
        cells=_effective(found, missing),
        purpose=f"experiment {found.name}",
    ) as rehearse:
        folder = asked.unfinished or asked.start()
        console.print(f"experiment folder: {folder.path}", highlight=False, soft_wrap=True)
        try:
            lack = _run_missing(console, found, folder, rehearse, time_left)
        except KeyboardInterrupt:
            _say_how_to_go_on(console, read_progress(folder))
            raise
    if lack is not None:
        return _stopped(console, found, read_progress(folder), lack)
    return _conclude(console, folder)


def _effective(found: Experiment, missing: Sequence[PlannedRun]) -> list[Cell]:
    """Return each cell as one of its missing runs has it, with a phase if that is fixed."""
    return [
        checked_cell(found.scenario, policy=run.policy(found), overrides=run.overrides(found))
        for run in {run.cell: run for run in missing}.values()
    ]


def _run_missing(
    console: Console,
    found: Experiment,
    folder: ExperimentFolder,
    rehearse: Rehearse,
    time_left: TimeLeft,
) -> str | None:
    """Rehearse and record each missing run, in the recorded order.

    Return why the next one was not started; None: no run is missing.
    """
    while missing := (progress := read_progress(folder)).missing:
        if (lack := _lack(found, progress, time_left)) is not None:
            return lack
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
    return None


def _lack(found: Experiment, progress: Progress, time_left: TimeLeft) -> str | None:
    """Return why the next run does not fit into the time that is left; None: it does."""
    seconds = progress.expected_seconds(progress.missing[0], found.run_seconds)
    if time_left.fits(seconds):
        return None
    return f"{time_left.seconds:,.0f} s are left, and the next run takes about {seconds:,.0f} s"


def _rehearsed(console: Console, found: Experiment, run: PlannedRun, rehearse: Rehearse) -> str:
    """Return the id of the run when it has a verdict; try again once if it ends without one."""
    for number in range(1, MOST_TRIES + 1):
        conf = _conf(found, run)
        try:
            rehearse(conf)
        except StillRunning:
            raise
        except NotReady as error:
            if number == MOST_TRIES:
                raise
            console.print(f"no result, once more: {error}", markup=False, highlight=False)
        else:
            break
    return str(conf["run_id"])


def _conf(found: Experiment, run: PlannedRun) -> dict[str, Any]:
    """Return the conf of the run's Dag run."""
    run_id = new_run_id(
        Path(found.scenario).stem, planned_at=datetime.now(UTC), unique_digits=secrets.token_hex(2)
    )
    conf: dict[str, Any] = {"scenario": from_any_folder(found.scenario), "run_id": run_id}
    conf |= {"keep_bench": True, "overrides": run.overrides(found)}
    policy = run.policy(found)
    return conf if policy is None else conf | {"policy": from_any_folder(policy)}


def _stopped(console: Console, found: Experiment, progress: Progress, lack: str) -> Ended:
    """Say that the time ends the command before the experiment is finished."""
    _say(console, f"{found.name} is not finished: {lack}")
    _say_how_to_go_on(console, progress)
    missing = len(progress.missing)
    text = f"{progress.done} of {len(progress.schedule.runs)} runs are done, {missing} are missing"
    return Ended(found.name, ExitCode.UNDETERMINED, text)


def _say_how_to_go_on(console: Console, progress: Progress) -> None:
    _say(
        console,
        f"{progress.done} of {len(progress.schedule.runs)} runs are done and kept; the same "
        "command continues with the next run",
    )


def _conclude(console: Console, folder: ExperimentFolder) -> Ended:
    """Write and print the result."""
    return _show(console, folder, conclude(folder))


def _show(console: Console, folder: ExperimentFolder, result: ExperimentResult) -> Ended:
    """Print the result; a pair that is missing makes it undetermined."""
    print_result(console, result)
    console.print(f"\nresult: {folder.page}", highlight=False, soft_wrap=True)
    code = ExitCode.UNDETERMINED if result.has_gap else ExitCode.PASS
    text = "finished, with a gap" if result.has_gap else "finished"
    return Ended(result.experiment, code, f"{text}: {folder.page}")


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
