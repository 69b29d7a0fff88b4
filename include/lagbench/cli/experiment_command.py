"""``lagbench experiment``: run the cells of experiments by pairs, over days if need be."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lagbench.cli.cell_commands import TargetOption, TargetSettingsOption, new_id
from lagbench.cli.terminal import Terminal, table_of
from lagbench.errors import ExitCode, NotReady, StillRunning, WrongInput

if TYPE_CHECKING:
    from lagbench.adapters.runs.experiment_folder import ExperimentFolder
    from lagbench.catalog.catalog import Cell
    from lagbench.cli.rehearsal import Rehearse
    from lagbench.core.compare.experiment import Experiment, PlannedRun, Progress, Schedule
    from lagbench.core.compare.experiment_result import ExperimentResult

LONGEST_HOURS = 1000
MOST_TRIES = 2
"""A run without a verdict is tried again once; then the bench needs a look."""
_COLOURS = {"differs": "yellow", "equivalent": "green", "undetermined": "dim", "listed": "dim"}
_COLOURS |= {"shown": "green", "refuted": "yellow"}


def experiment(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Names from the catalog, or YAML files; they are run one after the other. None: "
            "list them.",
        ),
    ] = None,
    *,
    pairs: Annotated[
        int | None, typer.Option(help="6, 8 or 12 pairs instead of the file's number.")
    ] = None,
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
            max=LONGEST_HOURS,
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
    console = Terminal()
    if not names:
        _print_experiments(console)
        return ExitCode.PASS
    ends_at = None if hours is None else time.monotonic() + 3600 * hours
    asked = []
    for name in names:
        if names.count(name) > 1:
            _refuse("NAME", name, "each experiment once")
        at = folder if folder is None or len(names) == 1 else folder / Path(name).stem
        asked.append(_asked(name, target, pairs, at))
    for one in asked:
        _print_hours(console, one)
        if plan:
            _print_order(console, one)
            _print_prediction(console, one)
    if len(asked) > 1:
        together = sum(one.experiment.hours_of(one.schedule.pairs) for one in asked)
        console.say(
            f"{len(asked)} experiments: about {together:.1f} hours, with those that are done"
        )
    if plan:
        return ExitCode.PASS
    return _execute_all(console, asked, target, target_settings, ends_at)


def _execute_all(
    console: Terminal,
    asked: Sequence[_Asked],
    target: str,
    target_settings: Path | None,
    ends_at: float | None,
) -> ExitCode:
    """Run them one after the other; one that the bench stops does not stop those after it."""
    ended = []
    for one in asked:
        try:
            ended.append(_execute(console, one, target, target_settings, ends_at))
        except NotReady as error:
            if len(asked) == 1:
                raise
            console.say(str(error), style="red")
            ended.append((ExitCode.NOT_READY, f"stopped: {error}"))
    if len(ended) > 1:
        console.print()
        for one, (_, text) in zip(asked, ended, strict=True):
            console.say(f"{one.experiment.name}: {text}")
    codes = {code for code, _ in ended}
    # What needs a person most: the bench, then what is missing.
    order = (ExitCode.NOT_READY, ExitCode.UNDETERMINED)
    return next((code for code in order if code in codes), ExitCode.PASS)


def _refuse(field: str, value: object, allowed: str) -> None:
    raise WrongInput(where="the command line", field=field, value=value, allowed=allowed)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A checked experiment, and the execution that the command continues, if there is one."""

    experiment: Experiment
    cells: Mapping[str, Cell]
    schedule: Schedule
    label: str  # of the target
    pairs: int | None
    path: Path | None  # the folder that was asked for
    unfinished: ExperimentFolder | None  # in ``path`` also one that has its result

    @property
    def progress(self) -> Progress:
        """Return the runs of the execution to continue; none are done if there is none."""
        from lagbench.core.compare.experiment import Progress
        from lagbench.results.executions import read_progress

        if self.unfinished is None:
            return Progress(self.schedule, ())
        return read_progress(self.unfinished)

    def start(self) -> ExperimentFolder:
        """Draw and record the order of a new execution."""
        from lagbench.adapters.runs.experiment_folder import ExperimentFolder
        from lagbench.results.executions import start_execution

        return start_execution(
            self.experiment,
            target=self.label,
            started_by="command",
            now=time.time_ns(),
            pairs=self.pairs,
            at=None if self.path is None else ExperimentFolder(self.path.absolute()),
        )


def _asked(name: str, target: str, pairs: int | None, path: Path | None) -> _Asked:
    """Return a checked experiment with the execution to continue."""
    from lagbench.catalog.experiments import check_experiment, load_experiment
    from lagbench.core.cluster.cluster_settings import EMBEDDED
    from lagbench.core.compare.experiment import draw_schedule
    from lagbench.results.executions import target_label

    found = load_experiment(name)
    label = target_label(target)
    return _Asked(
        experiment=found,
        cells=check_experiment(found),
        schedule=draw_schedule(found, pairs=pairs, has_known_hpa=label == EMBEDDED),
        label=label,
        pairs=pairs,
        path=path,
        unfinished=_unfinished(found, label, pairs, path),
    )


def _unfinished(
    found: Experiment, label: str, pairs: int | None, path: Path | None
) -> ExperimentFolder | None:
    """Return the execution that the command continues; in ``path`` also one that has its result."""
    from lagbench.adapters.runs.experiment_folder import ExperimentFolder
    from lagbench.results.executions import find_unfinished, require_same

    if path is None:
        return find_unfinished(found, target=label, pairs=pairs)
    path = path.absolute()
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir():
        allowed = f"a folder, or a path where one can be made ({there} is a file)"
        _refuse("--folder", path, allowed)
    kept = ExperimentFolder(path)
    if not kept.is_started:
        return None
    require_same(kept, found, target=label, pairs=pairs)
    return kept


def _execute(
    console: Terminal,
    asked: _Asked,
    target: str,
    target_settings: Path | None,
    ends_at: float | None,
) -> tuple[ExitCode, str]:
    """Run what is missing and fits into the time, and print the result when nothing is."""
    from lagbench.catalog.catalog import checked_cell
    from lagbench.cli.rehearsal import opened_target, require_disk
    from lagbench.results.executions import conclude, read_progress, read_result

    found, progress, folder = asked.experiment, asked.progress, asked.unfinished
    if folder is not None and (result := read_result(folder)) is not None:
        return _show(console, folder, result)
    if folder is not None and progress.is_finished:  # it was stopped before its result
        return _show(console, folder, conclude(folder))
    missing = progress.missing
    if (lack := _lack(found, progress, ends_at)) is not None:
        return _stopped(console, found, progress, lack)
    require_disk(asked.cells[missing[0].cell], runs=len(missing))  # as if all had its load
    # Each cell as one of its missing runs has it, with a phase if that is fixed.
    cells = [
        checked_cell(found.scenario, policy=run.policy(found), overrides=run.overrides(found))
        for run in {run.cell: run for run in missing}.values()
    ]
    with opened_target(
        console,
        target=target,
        target_settings=target_settings,
        cells=cells,
        purpose=f"experiment {found.name}",
    ) as rehearse:
        folder = folder or asked.start()
        console.say(f"experiment folder: {folder.path}")
        try:
            lack = _run_missing(console, found, folder, rehearse, ends_at)
        except KeyboardInterrupt:
            _say_how_to_go_on(console, read_progress(folder))
            raise
    if lack is not None:
        return _stopped(console, found, read_progress(folder), lack)
    return _show(console, folder, conclude(folder))


def _run_missing(
    console: Terminal,
    found: Experiment,
    folder: ExperimentFolder,
    rehearse: Rehearse,
    ends_at: float | None,
) -> str | None:
    """Rehearse and record each missing run, in the recorded order.

    Return why the next one was not started; None: no run is missing.
    """
    from lagbench.adapters.runs.run_folder import RunFolder, runs_root
    from lagbench.results.executions import read_progress, record_run

    while missing := (progress := read_progress(folder)).missing:
        if (lack := _lack(found, progress, ends_at)) is not None:
            return lack
        run = missing[0]
        again = ", repeated" if progress.attempts(run) else ""
        console.say(
            f"\nrun {progress.done + 1} of {len(progress.schedule.runs)}: pair {run.pair}, "
            f"cell {run.cell}, seed {run.seed}{again}",
            style="bold",
        )
        run_id = _rehearsed(console, found, run, rehearse)
        record = record_run(folder, run, RunFolder(runs_root() / run_id), now=time.time_ns())
        console.say(": ".join((record.verdict, *record.reasons[:1])))
    return None


def _lack(found: Experiment, progress: Progress, ends_at: float | None) -> str | None:
    """Return why the next run does not fit into the time that is left; None: it does."""
    seconds = progress.expected_seconds(progress.missing[0], found.run_seconds)
    left = float("inf") if ends_at is None else max(0.0, ends_at - time.monotonic())
    if seconds <= left:
        return None
    return f"{left:,.0f} s are left, and the next run takes about {seconds:,.0f} s"


def _rehearsed(console: Terminal, found: Experiment, run: PlannedRun, rehearse: Rehearse) -> str:
    """Return the id of the run when it has a verdict; try again once if it ends without one."""
    from lagbench.catalog.catalog_files import from_any_folder

    for number in range(1, MOST_TRIES + 1):
        run_id, policy = new_id(Path(found.scenario).stem), run.policy(found)
        conf: dict[str, Any] = {"scenario": from_any_folder(found.scenario), "run_id": run_id}
        conf |= {"keep_bench": True, "overrides": run.overrides(found)}
        if policy is not None:
            conf["policy"] = from_any_folder(policy)
        try:
            rehearse(conf)
        except StillRunning:
            raise
        except NotReady as error:
            if number == MOST_TRIES:
                raise
            console.say(f"no result, once more: {error}")
        else:
            break
    return run_id


def _stopped(
    console: Terminal, found: Experiment, progress: Progress, lack: str
) -> tuple[ExitCode, str]:
    """Say that the time ends the command before the experiment is finished."""
    console.say(f"{found.name} is not finished: {lack}")
    _say_how_to_go_on(console, progress)
    missing = len(progress.missing)
    text = f"{progress.done} of {len(progress.schedule.runs)} runs are done, {missing} are missing"
    return ExitCode.UNDETERMINED, text


def _say_how_to_go_on(console: Terminal, progress: Progress) -> None:
    console.say(
        f"{progress.done} of {len(progress.schedule.runs)} runs are done and kept; the same "
        "command continues with the next run"
    )


def _show(
    console: Terminal, folder: ExperimentFolder, result: ExperimentResult
) -> tuple[ExitCode, str]:
    """Print the result; a pair that is missing makes it undetermined."""
    _print_result(console, result)
    console.say(f"\nresult: {folder.page}")
    code = ExitCode.UNDETERMINED if result.has_gap else ExitCode.PASS
    return code, f"{'finished, with a gap' if result.has_gap else 'finished'}: {folder.page}"


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
    console.print(table_of(headings, rows, wrapped=("question", "last")))


def _print_hours(console: Terminal, asked: _Asked) -> None:
    """Print the expected hours of all runs, and of those that are still missing."""
    from lagbench.core.compare.experiment_result import decidability_note

    found, schedule, progress = asked.experiment, asked.schedule, asked.progress
    hours, count = found.hours_of(schedule.pairs), len(schedule.runs)
    pairs = f"{schedule.pairs} {'pair' if schedule.pairs == 1 else 'pairs'}"
    console.say(f"{found.title}: about {hours:.1f} hours, {pairs}, {count} runs")
    if note := decidability_note(found, schedule.pairs):
        console.warn(note)
    if progress.records:
        left = hours * len(progress.missing) / count
        console.say(
            f"continues: {progress.done} of {count} runs are done, about {left:.1f} hours are left"
        )


def _print_order(console: Terminal, asked: _Asked) -> None:
    """Print the drawn order of the runs."""
    found, rows = asked.experiment, []
    cells = {cell.name: cell for cell in found.cells}
    for number, run in enumerate(asked.schedule.runs, start=1):
        phase = "–" if run.hpa_sync_at_seconds is None else f"{run.hpa_sync_at_seconds:g}"
        overrides = found.overrides_of(cells[run.cell]).items()
        policy = cells[run.cell].policy
        settings = [*filter(None, [policy]), *(f"{key}={value}" for key, value in overrides)]
        verdicts = [str(record.verdict) for record in asked.progress.attempts(run)]
        place = (str(number), str(run.pair), run.cell, str(run.seed))
        rows.append((*place, phase, ", ".join(settings), *(verdicts[-1:] or [""])))
    headings = ("", "pair", "cell", "seed", "HPA's sync, s", "settings", "verdict")
    title = f"order, drawn by seed {asked.schedule.order_seed}"
    console.print(table_of(headings, rows, title=title, is_whole=False))


def _print_prediction(console: Terminal, asked: _Asked) -> None:
    """Print what the simulator predicts of each measure, with the seeds and phases of the pairs."""
    from lagbench.core.compare.experiment_page import (
        PREDICTED_HEADINGS,
        not_simulated,
        predicted_values,
    )
    from lagbench.core.simulation.simulate import left_out, simulate
    from lagbench.core.simulation.simulated_world import SimulatedEnvironment

    found, simulated = asked.experiment, {}
    try:
        for run in asked.schedule.runs:
            cell = asked.cells[run.cell]
            around = SimulatedEnvironment(hpa_sync_at_seconds=run.hpa_sync_at_seconds)
            swapped = {number: one.policy for number, one in cell.swapped.items()}
            simulated[run.pair, run.cell] = simulate(
                cell.scenario, cell.policy, seed=run.seed, environment=around, swapped=swapped
            ).measures
    except WrongInput as error:
        console.say(f"not simulated: {error}")
        return
    played = [asked.cells[cell.name].scenario for cell in found.cells]
    if missing_parts := sorted({one for each in played for one in left_out(each)}):
        console.say(f"! the prediction leaves out: {', '.join(missing_parts)}")
    if rows := [row.row for row in predicted_values(found, asked.schedule, simulated)]:
        title = "simulated with the seeds and phases of the pairs; differences to"
        title = f"{title} {found.cells[0].name}"
        console.print(table_of(PREDICTED_HEADINGS, rows, title=title, is_whole=False))
    if missing := not_simulated(found):
        console.say(missing)


def _print_result(console: Terminal, result: ExperimentResult) -> None:
    """Print the differences, why pairs are missing, and the notes."""
    from lagbench.core.compare.experiment_page import (
        HEADINGS,
        SHOWN_HEADINGS,
        difference_row,
        in_order,
        not_measured,
        shown_row,
        tested,
    )

    def with_colour(row: Sequence[str], verdict: str) -> tuple[str | Text, ...]:
        return (*row[:-1], Text(row[-1], style=_COLOURS.get(verdict, "")))

    for comparison in result.comparisons:
        title = f"{comparison.second} minus {comparison.first}, {len(comparison.pairs)} pairs"
        headings = [
            one.format(first=comparison.first, second=comparison.second) for one in HEADINGS
        ]
        differences = comparison.differences
        rows = [
            with_colour(difference_row(found, result.noise), found.verdict)
            for found in in_order(differences)
        ]
        right = [one for one in headings if one != "measure"]
        console.print(table_of(headings, rows, title=title, right=right, is_whole=False))
        for line in (
            *(f"{found.title}: {found.text}" for found in tested(differences)),
            *filter(None, [not_measured(differences)]),
            *(f"left out: {reason}" for reason in comparison.left_out),
        ):
            console.say(f"  {line}")
    if result.shown:
        rows = [with_colour(shown_row(found), found.verdict) for found in result.shown]
        title = "shown by every run, without a test"
        console.print(table_of(SHOWN_HEADINGS, rows, title=title, is_whole=False))
    for note in result.notes:
        console.say(f"  {note}")
