"""Print what is known of finished runs: the list, a verdict, and what the nightly gate found."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from lagbench.adapters.runs.run_folder import RunFolder, RunSummary
from lagbench.cli.terminal import Terminal
from lagbench.cli.watched_run import is_in_progress, standing_text
from lagbench.core.verdict.in_words import in_words
from lagbench.core.verdict.verdict import Verdict, exit_code
from lagbench.errors import ExitCode, NotReady
from lagbench.report.outcome_files import known_measures
from lagbench.report.page import instant, steps_of
from lagbench.report.stopped_run import StoppedRun, stopped_run
from lagbench.results.compared_runs import read_baseline
from lagbench.results.gate import read_record
from lagbench.results.seals import changed_since
from lagbench.shared_with_spark import message_classes

_MARKS = {
    "pass": ("✓", "green"),
    "fail": ("✗", "red"),
    "warn": ("!", "yellow"),
    "undetermined": ("?", "yellow"),
    "not_judged": ("·", "dim"),
}
_COUNTS = ("produced_acked", "in_log", "processed_distinct", "lost", "duplicated", "reordered")
_GAPS = (
    message_classes.FAILED,
    *message_classes.FOREIGN_RECORDS,
    *message_classes.ABSENT,
    "not_in_log_excused",
    "expired",
    "log_holes",
    "unknown_message",
    "produced_unknown",
    "zombie_in_doubt",
    "reordered_in_doubt",
    "outside_run",
)
"""Printed only if there are any: the verdict names each, and normally there are none."""
_GATE_COLOURS = {
    "baseline": "green",
    "within": "green",
    "regressed": "red",
    "undetermined": "yellow",
    "not_compared": "dim",
}
_LIST_COLUMNS = ("run", "verdict", "policy", "began", "scenario", "seed", "fidelity")
_LEAST_COLUMNS = 2
"""Run and verdict are always shown; the others, from the left, if there is room."""


def print_runs(console: Terminal, runs: Sequence[RunSummary]) -> None:
    """Print a line for each run; a narrow terminal gets fewer columns and a note.

    A file or a pipe gets all columns, whatever its assumed width.
    """
    if not runs:
        console.say("no runs yet: lagbench run hello")
        return
    rows = []
    for run in runs:
        verdict = run.verdict and run.verdict.replace("_", " ")
        cells = (run.run_id, verdict, run.policy, instant(run.created_at), run.scenario)
        every = (*cells, run.seed, run.fidelity)
        rows.append(tuple("–" if cell is None else str(cell) for cell in every))
    widths = console.fitting(_LIST_COLUMNS, rows, _LEAST_COLUMNS)
    count = len(_LIST_COLUMNS)
    if console.is_terminal:
        count = _LEAST_COLUMNS - 1 + max(1, sum(width <= console.width for width in widths))
    console.table(_LIST_COLUMNS[:count], [row[:count] for row in rows])
    if left_out := _LIST_COLUMNS[count:]:
        console.print(f"{', '.join(left_out)}: in {widths[-1]} columns", style="dim")


def print_verdict(console: Terminal, folder: RunFolder) -> ExitCode:
    """Print each SLO with threshold and value, then failures, accounting, notes, gate, report.

    The reasons for an invalid run are printed first, once. Return the exit code of the verdict.
    """
    verdict = verdict_of(folder, console)
    for reason in verdict.invalid:
        console.print(Text(f"invalid: {reason}", style="bold yellow"))
    _print_slos(console, folder, verdict)
    explained = [slo for slo in verdict.slos if slo.status in ("fail", "warn", "undetermined")]
    for slo in explained:
        mark, colour = _MARKS[slo.status]
        console.print(Text(f"{mark} {slo.title}: {slo.reason}", style=colour))
    for group in folder.groups:
        if group.accounting.exists():
            _print_counts(console, group)
    mark, colour = _MARKS["warn" if verdict.is_partial else verdict.status]
    console.print(Text(f"{mark} {verdict.label.upper()}", style=f"bold {colour}"))
    sentences = in_words(verdict, known_measures(folder))
    for sentence in sentences:
        console.print(f"  {sentence}")
    shown = " ".join((*(slo.reason for slo in explained), *sentences)).lower()
    further = () if verdict.status == "pass" else verdict.deciding[len(verdict.invalid) :]
    for reason in (*verdict.judged_without, *further):
        if reason.split(": ", 1)[-1].lower() not in shown:  # these SLOs' own reasons are above
            console.print(f"  {reason}")
    for note in verdict.notes:
        console.print(f"  note: {note}")
    _print_next(console, folder, verdict)
    print_comparison(console, folder)
    if folder.report.exists():
        console.say(f"report: {folder.report}")
    return exit_code(verdict)


def _print_next(console: Terminal, folder: RunFolder, verdict: Verdict) -> None:
    """Print what helps a run that failed."""
    measures = known_measures(folder) if verdict.status == "fail" else None
    for step in () if measures is None else steps_of(folder, measures, verdict):
        console.print(f"  next: {step.do} ({step.because})")
        if step.command:
            console.say(f"    {step.command}")


def _print_slos(console: Terminal, folder: RunFolder, verdict: Verdict) -> None:
    """Print the table, unless nothing in it was judged."""
    if verdict.status == "not_judged":
        return
    rows = [
        (Text(*_MARKS[slo.status]), slo.title, slo.limit_text, slo.value_text)
        for slo in verdict.slos
    ]
    headings, title = ("", "SLO", "threshold", "value"), f"verdict of {folder.reference}"
    console.table(headings, rows, title=title, right=("value",))


def print_stopped(console: Terminal, run: StoppedRun) -> None:
    """Print what was seen of a run without a verdict, and what can be done with it."""
    figures = (
        f"{name} {'–' if value is None else f'{value:,.0f} {unit}'.strip()}"
        for name, value, unit in run.seen
    )
    console.print(f"seen until then: {', '.join(figures)}")
    for slo, value, standing in run.slos:
        console.print(Text.assemble(f"  {slo.title}: ", standing_text(slo, value, standing)))
    if run.remedy:
        console.say(f"next: {run.remedy}")


def verdict_of(folder: RunFolder, console: Terminal | None = None) -> Verdict:
    """Return the verdict, if there is one and what it rests on is as it was.

    :param console: shows what was seen of a run that has none.
    """
    name = folder.reference
    if not folder.verdict.exists() and folder.phases.exists():
        told = f"run {name} has no verdict"
        if is_in_progress(folder):
            raise NotReady(f"{told} yet: it is still in progress; lagbench watch {name} shows it")
        run = stopped_run(folder)
        if console is not None:
            print_stopped(console, run)
        raise NotReady(f"{told}: it {run.text}; lagbench report {name} writes a page of it")
    verdict = folder.read_model(folder.verdict, Verdict)
    if changed := changed_since(folder, verdict.judged):
        raise NotReady(
            f"run {name}: its verdict is of other files: {', '.join(changed)} changed since; "
            f"lagbench report {name} judges the folder as it is"
        )
    return verdict


def _print_counts(console: Terminal, folder: RunFolder) -> None:
    counts = folder.read_json(folder.accounting)
    shown = [*_COUNTS, *(name for name in _GAPS if counts.get(name))]
    values = ["not known" if counts.get(name) is None else f"{counts[name]:,}" for name in shown]
    cells = (f"{n.replace('_', ' ')} {value}" for n, value in zip(shown, values, strict=True))
    group = "second group: " if folder.is_second else ""
    console.print(f"{group}accounting: {', '.join(cells)}")


def print_comparison(console: Terminal, folder: RunFolder) -> None:
    """Compare a rehearsal with its baseline and the last night; print nothing for other runs."""
    record = read_record(folder)
    if record is None:
        return
    numbers = ("reference", "at most", "value")
    for name, found in record.comparisons:
        rows = []
        for one in found.measures:
            status = Text(one.status.replace("_", " "), style=_GATE_COLOURS[one.status])
            rows.append((one.heading, *one.numbers, status))
        title = f"against {name} {found.reference_run_id}"
        headings = ("measure", *numbers, "")
        console.table(headings, rows, title=title, right=numbers, folded=("measure",))
    style = f"bold {_GATE_COLOURS[record.status]}"
    console.print(Text(f"gate: {record.status.upper()}", style=style))
    for line in (*record.reasons, *(f"note: {note}" for note in record.notes)):
        console.say(f"  {line}")
    baseline = read_baseline(folder)
    if baseline is not None and baseline.reason == "accepted":
        console.say("  this run was accepted as the baseline of its cell")
    elif record.status in ("regressed", "undetermined"):
        console.say(f"  accept it: lagbench baseline {record.run_id}")
