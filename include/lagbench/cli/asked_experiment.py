"""One experiment that the command runs: what is missing of it, run by run, and its result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lagbench.cli.comparison_table import print_comparison, with_colour
from lagbench.cli.options import conf_of, refuse
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode, NotReady, StillRunning

if TYPE_CHECKING:
    from lagbench.adapters.runs.experiment_folder import ExperimentFolder
    from lagbench.catalog.catalog import Cell
    from lagbench.cli.rehearsal import Rehearse
    from lagbench.core.compare.experiment import Experiment, PlannedRun, Progress, Schedule
    from lagbench.core.compare.experiment_result import ExperimentResult

MOST_TRIES = 2
"""A run without a verdict is tried again once; then the bench needs a look."""
End = tuple[ExitCode, str]
"""How an experiment has ended, for the exit code and in words."""


class Place:
    """Where and until when the command rehearses."""

    def __init__(self, target: str, settings: Path | None, seconds: float) -> None:
        """Let the time of ``seconds`` begin."""
        self.target, self.settings = target, settings
        self._ends_at = time.monotonic() + seconds

    def lack(self, found: Experiment, progress: Progress) -> str | None:
        """Return why the next run does not fit into the time that is left; None: it does."""
        seconds = progress.expected_seconds(progress.missing[0], found.run_seconds)
        left = max(0.0, self._ends_at - time.monotonic())
        if seconds <= left:
            return None
        return f"{left:,.0f} s are left, and the next run takes about {seconds:,.0f} s"


@dataclass(frozen=True, slots=True)
class AskedExperiment:
    """A checked experiment, and the execution that the command continues, if there is one."""

    console: Terminal
    place: Place
    found: Experiment
    cells: Mapping[str, Cell]
    schedule: Schedule
    label: str  # of the target
    pairs: int | None
    path: Path | None  # the folder that was asked for
    unfinished: ExperimentFolder | None  # in ``path`` also one that has its result

    @classmethod
    def of(
        cls,
        console: Terminal,
        found: Experiment,
        place: Place,
        pairs: int | None,
        path: Path | None,
    ) -> AskedExperiment:
        """Check an experiment, and find the execution to continue."""
        from lagbench.catalog.experiments import check_experiment
        from lagbench.core.cluster.cluster_settings import EMBEDDED
        from lagbench.core.compare.experiment import draw_schedule
        from lagbench.results.executions import find_unfinished, target_label

        label = target_label(place.target)
        cells = check_experiment(found)
        schedule = draw_schedule(found, pairs=pairs, has_known_hpa=label == EMBEDDED)
        if path is None:
            unfinished = find_unfinished(found, target=label, pairs=pairs)
        else:
            unfinished = _kept_in(path.absolute(), found, label, pairs)
        return cls(console, place, found, cells, schedule, label, pairs, path, unfinished)

    @property
    def progress(self) -> Progress:
        """Return the runs of the execution to continue; none are done if there is none."""
        from lagbench.core.compare.experiment import Progress
        from lagbench.results.executions import read_progress

        kept = self.unfinished
        return Progress(self.schedule, ()) if kept is None else read_progress(kept)

    def start(self) -> ExperimentFolder:
        """Draw and record the order of a new execution."""
        from lagbench.adapters.runs.experiment_folder import ExperimentFolder
        from lagbench.results.executions import start_execution

        return start_execution(
            self.found,
            target=self.label,
            started_by="command",
            now=time.time_ns(),
            pairs=self.pairs,
            at=None if self.path is None else ExperimentFolder(self.path.absolute()),
        )

    def execute(self) -> End:
        """Run what is missing and fits into the time, and print the result when nothing is."""
        from lagbench.catalog.catalog import checked_cell
        from lagbench.cli.rehearsal import opened_target, require_disk
        from lagbench.results.executions import conclude, read_progress, read_result

        found, folder, progress = self.found, self.unfinished, self.progress
        if folder is not None and (result := read_result(folder)) is not None:
            return self._show(folder, result)
        if folder is not None and progress.is_finished:  # it was stopped before its result
            return self._show(folder, conclude(folder))
        if (lack := self.place.lack(found, progress)) is not None:
            return self._stopped(progress, lack)
        missing = progress.missing
        require_disk(self.cells[missing[0].cell], runs=len(missing))  # as if all had its load
        # Each cell as one of its missing runs has it, with a phase if that is fixed.
        cells = [
            checked_cell(found.scenario, policy=run.policy(found), overrides=run.overrides(found))
            for run in {run.cell: run for run in missing}.values()
        ]
        place, purpose = self.place, f"experiment {found.name}"
        with opened_target(
            self.console, place.target, place.settings, cells, purpose=purpose
        ) as rehearse:
            folder = folder or self.start()
            self.console.say(f"experiment folder: {folder.path}")
            try:
                lack = self._run_missing(folder, rehearse)
            except KeyboardInterrupt:
                self._say_how_to_go_on(read_progress(folder))
                raise
        if lack is not None:
            return self._stopped(read_progress(folder), lack)
        return self._show(folder, conclude(folder))

    def _run_missing(self, folder: ExperimentFolder, rehearse: Rehearse) -> str | None:
        """Rehearse and record each missing run, in the recorded order.

        Return why the next one was not started; None: no run is missing.
        """
        from lagbench.adapters.runs.run_folder import RunFolder, runs_root
        from lagbench.results.executions import read_progress, record_run

        while missing := (progress := read_progress(folder)).missing:
            if (lack := self.place.lack(self.found, progress)) is not None:
                return lack
            run = missing[0]
            again = ", repeated" if progress.attempts(run) else ""
            self.console.say(
                f"\nrun {progress.done + 1} of {len(progress.schedule.runs)}: pair {run.pair}, "
                f"cell {run.cell}, seed {run.seed}{again}",
                style="bold",
            )
            made = RunFolder(runs_root() / self._rehearsed(run, rehearse))
            record = record_run(folder, run, made, now=time.time_ns())
            self.console.say(": ".join((record.verdict, *record.reasons[:1])))
        return None

    def _rehearsed(self, run: PlannedRun, rehearse: Rehearse) -> str:
        """Return the id of the run when it has a verdict; try again once if it ends without one."""
        found = self.found
        for number in range(1, MOST_TRIES + 1):
            name = Path(found.scenario).stem
            conf = conf_of(name, found.scenario, run.policy(found), run.overrides(found))
            try:
                rehearse(conf)
            except StillRunning:
                raise
            except NotReady as error:
                if number == MOST_TRIES:
                    raise
                self.console.say(f"no result, once more: {error}")
            else:
                break
        return str(conf["run_id"])

    def _stopped(self, progress: Progress, lack: str) -> End:
        """Say that the time ends the command before the experiment is finished."""
        self.console.say(f"{self.found.name} is not finished: {lack}")
        self._say_how_to_go_on(progress)
        missing = len(progress.missing)
        done = f"{progress.done} of {len(progress.schedule.runs)} runs are done"
        return ExitCode.UNDETERMINED, f"{done}, {missing} are missing"

    def _say_how_to_go_on(self, progress: Progress) -> None:
        self.console.say(
            f"{progress.done} of {len(progress.schedule.runs)} runs are done and kept; the same "
            "command continues with the next run"
        )

    def _show(self, folder: ExperimentFolder, result: ExperimentResult) -> End:
        """Print the result; a pair that is missing makes it undetermined."""
        _print_result(self.console, result)
        self.console.say(f"\nresult: {folder.page}")
        if result.has_gap:
            return ExitCode.UNDETERMINED, f"finished, with a gap: {folder.page}"
        return ExitCode.PASS, f"finished: {folder.page}"


def _kept_in(
    path: Path, found: Experiment, label: str, pairs: int | None
) -> ExperimentFolder | None:
    """Return the execution in a folder that was asked for, also one that has its result."""
    from lagbench.adapters.runs.experiment_folder import ExperimentFolder
    from lagbench.results.executions import require_same

    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir():
        refuse("--folder", path, f"a folder, or a path where one can be made ({there} is a file)")
    kept = ExperimentFolder(path)
    if not kept.is_started:
        return None
    require_same(kept, found, target=label, pairs=pairs)
    return kept


def _print_result(console: Terminal, result: ExperimentResult) -> None:
    """Print the differences, why pairs are missing, and the notes."""
    from lagbench.core.compare import experiment_page as page

    for one in result.comparisons:
        print_comparison(console, one, result.noise)
    if result.shown:
        rows = [with_colour(page.shown_row(found), found.verdict) for found in result.shown]
        title, headings = "shown by every run, without a test", list(page.SHOWN_HEADINGS)
        console.table(headings, rows, title=title, folded=headings)
    for note in result.notes:
        console.say(f"  {note}")
