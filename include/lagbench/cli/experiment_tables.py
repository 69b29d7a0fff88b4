"""Print experiments, the order of their runs, and their results as terminal tables."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lagbench.adapters.runs.experiment_folder import executions
from lagbench.catalog.catalog_files import list_experiments
from lagbench.catalog.experiments import load_experiment
from lagbench.core.experiment import Experiment, Progress, Schedule
from lagbench.core.experiment.result import (
    HEADINGS,
    SHOWN_HEADINGS,
    ExperimentResult,
    decidability_note,
    difference_row,
    in_order,
    not_measured,
    shown_row,
    tested,
)
from lagbench.results.experiments import read_progress, read_result

_COLOURS = {"differs": "yellow", "equivalent": "green", "undetermined": "dim", "listed": "dim"}
_COLOURS |= {"shown": "green", "refuted": "yellow"}


def print_experiments(console: Console) -> None:
    """Print a line for each experiment of the catalog, with the state of its last execution."""
    table = Table(box=None)
    for heading in ("experiment", "pairs", "hours", "question", "last"):
        table.add_column(heading, no_wrap=heading not in ("question", "last"))
    for name in list_experiments():
        found = load_experiment(name)
        numbers = (str(found.pairs), f"{found.hours:g}")
        table.add_row(name, *numbers, found.question, _state(name))
    console.print(table)


def _state(name: str) -> str:
    folders = executions(name)
    if not folders:
        return "–"
    if read_result(folders[-1]) is not None:
        return f"finished: {folders[-1].page}"
    progress = read_progress(folders[-1])
    return f"{progress.done} of {len(progress.schedule.runs)} runs"


def print_hours(
    console: Console, found: Experiment, schedule: Schedule, progress: Progress | None
) -> None:
    """Print the expected hours of all runs, and of those that are still missing."""
    hours, count = found.hours_of(schedule.pairs), len(schedule.runs)
    pairs = "pair" if schedule.pairs == 1 else "pairs"
    console.print(
        f"{found.title}: about {hours:.1f} hours, {schedule.pairs} {pairs}, {count} runs",
        highlight=False,
    )
    if note := decidability_note(found, schedule.pairs):
        console.print(Text("!", "yellow"), note, highlight=False, soft_wrap=True)
    if progress is not None and progress.records:
        left = hours * len(progress.missing) / count
        console.print(
            f"continues: {progress.done} of {count} runs are done, about {left:.1f} hours are left",
            highlight=False,
        )


def print_order(
    console: Console, found: Experiment, schedule: Schedule, progress: Progress | None
) -> None:
    """Print the drawn order of the runs."""
    table = Table(box=None, title=f"order, drawn by seed {schedule.order_seed}")
    table.title_justify = "left"
    for heading in ("", "pair", "cell", "seed", "HPA's sync, s", "settings", "verdict"):
        table.add_column(heading)
    for number, run in enumerate(schedule.runs, start=1):
        phase = "–" if run.hpa_sync_at_seconds is None else f"{run.hpa_sync_at_seconds:g}"
        cell = next(cell for cell in found.cells if cell.name == run.cell)
        settings = ", ".join(f"{key}={value}" for key, value in found.overrides_of(cell).items())
        if cell.policy is not None:
            settings = ", ".join(filter(None, (cell.policy, settings)))
        records = () if progress is None else progress.attempts(run)
        verdict = records[-1].verdict if records else ""
        table.add_row(str(number), str(run.pair), run.cell, str(run.seed), phase, settings, verdict)
    console.print(table)


def print_result(console: Console, result: ExperimentResult) -> None:
    """Print the differences, why pairs are missing, and the notes."""
    for comparison in result.comparisons:
        title = f"{comparison.second} minus {comparison.first}, {len(comparison.pairs)} pairs"
        table = Table(title=title, title_justify="left", box=None)
        for heading in HEADINGS:
            shown = heading.format(first=comparison.first, second=comparison.second)
            table.add_column(shown, justify="left" if heading == "measure" else "right")
        for found in in_order(comparison.differences):
            *cells, verdict = difference_row(found, result.noise)
            table.add_row(*cells, Text(verdict, style=_COLOURS.get(found.verdict, "")))
        console.print(table)
        for found in tested(comparison.differences):
            _say(console, f"{found.title}: {found.text}")
        unknown = not_measured(comparison.differences)
        for reason in (
            *([unknown] if unknown else []),
            *(f"left out: {r}" for r in comparison.left_out),
        ):
            _say(console, reason)
    if result.shown:
        _print_shown(console, result)
    for note in result.notes:
        _say(console, note)


def _print_shown(console: Console, result: ExperimentResult) -> None:
    table = Table(title="shown by every run, without a test", title_justify="left", box=None)
    for heading in SHOWN_HEADINGS:
        table.add_column(heading)
    for found in result.shown:
        *cells, verdict = shown_row(found)
        table.add_row(*cells, Text(verdict, style=_COLOURS.get(found.verdict, "")))
    console.print(table)


def _say(console: Console, text: str) -> None:
    console.print(f"  {text}", highlight=False, markup=False, soft_wrap=True)
