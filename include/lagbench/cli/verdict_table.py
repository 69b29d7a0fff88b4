"""Print the verdict of a run as a table, with the accounting and the path of the report."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.cli.comparison_table import print_comparison
from lagbench.cli.wide_table import print_whole
from lagbench.core.verdict import Verdict, exit_code
from lagbench.errors import ExitCode, NotReady
from lagbench.results.seals import changed_since
from lagbench.shared_with_spark import message_classes

_MARKS = {
    "pass": ("✓", "green"),
    "fail": ("✗", "red"),
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


def print_verdict(console: Console, folder: RunFolder) -> ExitCode:
    """Print each SLO with threshold and value, then failures, accounting, notes, gate, report.

    The reasons for an invalid run are printed first, once. Return the exit code of the verdict.

    :raises NotReady: the run has no verdict yet, or what it rests on was changed since.
    """
    verdict = _verdict_of(folder)
    for reason in verdict.invalid:
        console.print(Text(f"invalid: {reason}", style="bold yellow"))
    table = Table(title=f"verdict of {folder.reference}", title_justify="left", box=None)
    for heading in ("", "SLO", "threshold", "value"):
        table.add_column(heading, no_wrap=True, justify="right" if heading == "value" else "left")
    for slo in verdict.slos:
        mark, colour = _MARKS[slo.status]
        table.add_row(Text(mark, style=colour), slo.title, slo.threshold, slo.value_text)
    print_whole(console, table)
    explained = [slo for slo in verdict.slos if slo.status in ("fail", "undetermined")]
    for slo in explained:
        mark, colour = _MARKS[slo.status]
        console.print(Text(f"{mark} {slo.title}: {slo.reason}", style=colour))
    _print_accounting(console, folder)
    mark, colour = _MARKS[verdict.status]
    console.print(Text(f"{mark} {verdict.status.upper()}", style=f"bold {colour}"))
    shown = " ".join(slo.reason for slo in explained)
    for reason in (*verdict.judged_without, *verdict.deciding[len(verdict.invalid) :]):
        if reason.split(": ", 1)[-1] not in shown:  # these SLOs' own reasons are above
            console.print(f"  {reason}", highlight=False, markup=False)
    for note in verdict.notes:
        console.print(f"  note: {note}", highlight=False, markup=False)
    print_comparison(console, folder)
    if folder.report.exists():
        console.print(f"report: {folder.report}", highlight=False, soft_wrap=True)
    return exit_code(verdict)


def _verdict_of(folder: RunFolder) -> Verdict:
    """Return the verdict, if there is one and what it rests on is as it was."""
    if not folder.verdict.exists() and folder.phases.exists():
        from lagbench.cli.watched_run import is_in_progress
        from lagbench.report.stopped import stopped_run

        told, name = f"run {folder.reference} has no verdict", folder.reference
        if is_in_progress(folder):
            raise NotReady(f"{told} yet: it is still in progress; lagbench watch {name} shows it")
        far = f"lagbench report {name} shows how far it came"
        raise NotReady(f"{told}: it {stopped_run(folder).text}; {far}")
    verdict = folder.read_model(folder.verdict, Verdict)
    if changed := changed_since(folder, verdict.judged):
        raise NotReady(
            f"run {folder.reference}: its verdict is of other files: {', '.join(changed)} changed"
            f" since; lagbench report {folder.reference} judges the folder as it is"
        )
    return verdict


def _print_accounting(console: Console, folder: RunFolder) -> None:
    for group in folder.groups:
        if group.accounting.exists():
            _print_counts(console, group)


def _print_counts(console: Console, folder: RunFolder) -> None:
    counts = folder.read_json("accounting.json")
    cells = [f"{name.replace('_', ' ')} {_count(counts.get(name))}" for name in _COUNTS]
    # Printed only if there are any: the verdict names each, and normally there are none.
    cells += [
        f"{name.replace('_', ' ')} {_count(counts[name])}" for name in _GAPS if counts.get(name)
    ]
    whose = "second group: " if folder.is_second else ""
    console.print(f"{whose}accounting: {', '.join(cells)}", highlight=False)


def _count(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"
