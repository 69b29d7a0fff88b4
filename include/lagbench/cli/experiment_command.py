"""``lagbench experiment``: run the cells of experiments by pairs, over days if need be."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lagbench.cli.comparison_table import print_comparison, with_colour
from lagbench.cli.options import (
    SettingsOption,
    TargetOption,
    TargetSettingsOption,
    conf_of,
    refuse,
)
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode, NotReady, StillRunning, WrongInput

if TYPE_CHECKING:
    from lagbench.adapters.runs.experiment_folder import ExperimentFolder
    from lagbench.catalog.catalog import Cell
    from lagbench.cli.rehearsal import Rehearse
    from lagbench.core.compare.experiment import Experiment, PlannedRun, Progress, Schedule
    from lagbench.core.compare.experiment_result import ExperimentResult

_PAIRS = 6
"""Without a file; the fewest with which a test can show anything."""
MOST_TRIES = 2
"""A run without a verdict is tried again once; then the bench needs a look."""
End = tuple[ExitCode, str]
"""How an experiment has ended, for the exit code and in words."""


def experiment(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Names from the catalog, or YAML files; they are run one after the other. None: "
            "list them.",
        ),
    ] = None,
    *,
    scenario: Annotated[
        str | None, typer.Option(help="Without a NAME: compare policies under this scenario.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="With --scenario, two to six: the others are compared with the first."),
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(
            help="6, 8 or 12 pairs instead of the file's number (2 are listed without a test); "
            "with --scenario 6."
        ),
    ] = None,
    cell: Annotated[
        list[str] | None,
        typer.Option(help="Run these cells alone, e.g. those that a cluster can play."),
    ] = None,
    settings: SettingsOption = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Keep the execution here, for example in a repository, and continue it from here; "
            "of several experiments each in a folder of its name in it. Default: a folder of its "
            "own in runs/_experiments."
        ),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1000,
            help="Start no run that does not fit into this number of hours from now.",
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Print the hours, the order and the prediction, and start nothing."
        ),
    ] = False,
    target: TargetOption = "embedded",
    target_settings: TargetSettingsOption = None,
) -> int:
    """Compare cells by pairs of runs; the same command continues a stopped experiment."""
    from lagbench.catalog.catalog import parse_settings
    from lagbench.catalog.experiments import load_experiment

    console = Terminal()
    if scenario is not None or policy:
        if names or scenario is None or len({*(policy or ())}) < 2:
            allowed = "NAME, or --scenario with --policy two to six times, all different"
            refuse("experiment", " ".join((*(names or ()), *(policy or ()))), allowed)
        wanted = [_of_policies(scenario, policy or [], pairs or _PAIRS)]
    elif not names:
        _print_experiments(console)
        return ExitCode.PASS
    else:
        wanted = [load_experiment(name) for name in names]
    if cell or settings:
        overrides = parse_settings(settings or ())
        wanted = [found.adapted(cell or (), overrides) for found in wanted]
    place = _Place(target, target_settings, inf if hours is None else 3600 * hours)
    asked = []
    for name, found in zip(names or [""], wanted, strict=True):
        if names and names.count(name) > 1:
            refuse("NAME", name, "each experiment once")
        at = folder if folder is None or len(wanted) == 1 else folder / Path(name).stem
        asked.append(_Asked.of(console, found, place, pairs, at))
    for one in asked:
        one.print_hours()
        if plan:
            one.warn_of_target()
            one.print_order()
            one.print_prediction()
    if len(asked) > 1:
        together = sum(one.found.hours_of(one.schedule.pairs) for one in asked)
        console.say(
            f"{len(asked)} experiments: about {together:.1f} hours, with those that are done"
        )
    return ExitCode.PASS if plan else _execute_all(console, asked)


def _of_policies(scenario: str, policies: Sequence[str], pairs: int) -> Experiment:
    from lagbench.catalog.catalog import checked_cell
    from lagbench.catalog.experiments import experiment_of_policies
    from lagbench.cli.rehearsal import run_seconds

    seconds = sum(run_seconds(checked_cell(scenario, policy=one)) for one in policies)
    return experiment_of_policies(scenario, policies, pairs=pairs, seconds=seconds)


def rehearse_cells(
    console: Terminal,
    found: Experiment,
    folder: Path,
    *,
    target: str,
    target_settings: Path | None,
) -> ExitCode:
    """Run what is missing of an experiment in its folder, and print the result."""
    asked = _Asked.of(console, found, _Place(target, target_settings, inf), None, folder)
    asked.print_hours()
    return asked.execute()[0]


def _execute_all(console: Terminal, asked: Sequence[_Asked]) -> ExitCode:
    """Run them one after the other; one that the bench stops does not stop those after it."""
    ended: list[End] = []
    for one in asked:
        try:
            ended.append(one.execute())
        except NotReady as error:
            if len(asked) == 1:
                raise
            console.say(str(error), style="red")
            ended.append((ExitCode.NOT_READY, f"stopped: {error}"))
    if len(ended) > 1:
        console.print()
        for one, (_, text) in zip(asked, ended, strict=True):
            console.say(f"{one.found.name}: {text}")
    codes = {code for code, _ in ended}
    # What needs a person most: the bench, then what is missing.
    order = (ExitCode.NOT_READY, ExitCode.UNDETERMINED)
    return next((code for code in order if code in codes), ExitCode.PASS)


class _Place:
    """Where and until when the command rehearses."""

    def __init__(self, target: str, settings: Path | None, seconds: float) -> None:
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
class _Asked:
    """A checked experiment, and the execution that the command continues, if there is one."""

    console: Terminal
    place: _Place
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
        place: _Place,
        pairs: int | None,
        path: Path | None,
    ) -> _Asked:
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

    def print_hours(self) -> None:
        """Print the expected hours of all runs, and of those that are still missing."""
        from lagbench.core.compare.experiment_result import decidability_note

        found, schedule, progress = self.found, self.schedule, self.progress
        hours, count = found.hours_of(schedule.pairs), len(schedule.runs)
        pairs = f"{schedule.pairs} {'pair' if schedule.pairs == 1 else 'pairs'}"
        self.console.say(f"{found.title}: about {hours:.1f} hours, {pairs}, {count} runs")
        if note := decidability_note(found, schedule.pairs):
            self.console.warn(note)
        if progress.records:
            left = hours * len(progress.missing) / count
            done = f"{progress.done} of {count} runs are done"
            self.console.say(f"continues: {done}, about {left:.1f} hours are left")

    def warn_of_target(self) -> None:
        """Name each cell that the target, a cluster, cannot play."""
        from lagbench.core.cluster.cluster_settings import EMBEDDED
        from lagbench.orchestrator.target import refuse_elsewhere

        for name, cell in self.cells.items():
            try:
                refuse_elsewhere(cell, is_embedded=self.label == EMBEDDED)
            except WrongInput as error:
                self.console.warn(f"cell {name} cannot run there, --cell leaves it out: {error}")

    def print_order(self) -> None:
        """Print the drawn order of the runs."""
        rows, cells = [], {cell.name: cell for cell in self.found.cells}
        for number, run in enumerate(self.schedule.runs, start=1):
            phase = "–" if run.hpa_sync_at_seconds is None else f"{run.hpa_sync_at_seconds:g}"
            overrides = self.found.overrides_of(cells[run.cell]).items()
            settings = [*filter(None, [cells[run.cell].policy])]
            settings += [f"{key}={value}" for key, value in overrides]
            verdict = "".join(str(one.verdict) for one in self.progress.attempts(run)[-1:])
            place = (str(number), str(run.pair), run.cell, str(run.seed))
            rows.append((*place, phase, ", ".join(settings), verdict))
        headings = ("", "pair", "cell", "seed", "HPA's sync, s", "settings", "verdict")
        title = f"order, drawn by seed {self.schedule.order_seed}"
        self.console.table(headings, rows, title=title, folded=headings)

    def print_prediction(self) -> None:
        """Print what the simulator predicts of each measure, with seeds and phases of the pairs."""
        from lagbench.core.compare.experiment_page import (
            PREDICTED_HEADINGS,
            not_simulated,
            predicted_values,
        )
        from lagbench.core.simulation.simulate import left_out, simulate
        from lagbench.core.simulation.simulated_world import SimulatedEnvironment

        found, say, simulated = self.found, self.console.say, {}
        try:
            for run in self.schedule.runs:
                cell = self.cells[run.cell]
                around = SimulatedEnvironment(hpa_sync_at_seconds=run.hpa_sync_at_seconds)
                swapped = {number: one.policy for number, one in cell.swapped.items()}
                simulated[run.pair, run.cell] = simulate(
                    cell.scenario, cell.policy, seed=run.seed, environment=around, swapped=swapped
                ).measures
        except WrongInput as error:
            say(f"not simulated: {error}")
            return
        played = [self.cells[cell.name].scenario for cell in found.cells]
        if missing_parts := sorted({one for each in played for one in left_out(each)}):
            say(f"! the prediction leaves out: {', '.join(missing_parts)}")
        if rows := [row.row for row in predicted_values(found, self.schedule, simulated)]:
            title = "simulated with the seeds and phases of the pairs; differences to "
            title += found.cells[0].name
            self.console.table(PREDICTED_HEADINGS, rows, title=title, folded=PREDICTED_HEADINGS)
        if missing := not_simulated(found):
            say(missing)


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


def _print_experiments(console: Terminal) -> None:
    """Print a line for each experiment of the catalog, with the state of its last execution."""
    from lagbench.adapters.runs.experiment_folder import executions
    from lagbench.catalog.catalog_files import list_experiments
    from lagbench.catalog.experiments import load_experiment
    from lagbench.results.executions import read_progress, read_result

    rows = []
    for name in list_experiments():
        found, folders, state = load_experiment(name), executions(name), "–"
        if folders and read_result(folders[-1]) is not None:
            state = f"finished: {folders[-1].page}"
        elif folders:
            progress = read_progress(folders[-1])
            state = f"{progress.done} of {len(progress.schedule.runs)} runs"
        rows.append((name, str(found.pairs), f"{found.hours:g}", found.question, state))
    headings = ("experiment", "pairs", "hours", "question", "last")
    console.table(headings, rows, folded=("question", "last"))


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
