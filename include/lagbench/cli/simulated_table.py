"""Print simulated policies: two beside each other with every measure, of more a row for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from lagbench.cli.terminal import Terminal

if TYPE_CHECKING:
    from lagbench.cli.simulated_cells import SimulatedCell
    from lagbench.core.measures.model import NamedMeasure
    from lagbench.core.simulation.simulation_measures import Spread

    Summaries = Mapping[str, Mapping[str, Spread]]
    Marks = Mapping[tuple[str, str], str]

_MOST_COLUMNS = 2
"""Policies that stand beside each other; of more each has a row."""
_DECIDING = {
    "reaction_seconds": "react",
    "time_lag_p99_seconds": "p99",
    "seconds_over_slo": "late",
    "drain_seconds": "drain",
    "pod_minutes_in_all": "pod-min",
    "flips": "flips",
}
"""The measures of a row, lower is better, and their headings."""


def print_simulated(
    console: Terminal, cells: Sequence[SimulatedCell], seeds: int, *, show_all: bool
) -> None:
    """Print the policies' measures over the seeds, with a mark for each SLO that is asked.

    :param show_all: every measure, also of more than two policies.
    """
    from lagbench.core.simulation.model_error import error_text
    from lagbench.core.simulation.simulation_measures import COMPARED
    from lagbench.core.verdict.in_words import MARKS

    scenario = cells[0].cell.scenario
    oldest = scenario.slos.time_lag_p99_seconds
    head = f"{scenario.name}, simulated, seeds: {seeds}"
    console.print(f"{head}; no message older than {oldest:g} s" if oldest else head)
    kept = [one for one in COMPARED if oldest or one.name != "seconds_over_slo"]
    summaries = {one.name: one.summary for one in cells}
    marks = {(one.name, slo.name): MARKS[slo.status] for one in cells for slo in one.slos}
    is_short = len(cells) > _MOST_COLUMNS and not show_all
    (_print_policies if is_short else _print_measures)(console, kept, summaries, marks)
    asked = {f"{slo.title.lower()} {slo.threshold}" for one in cells for slo in one.slos}
    told = f"✓ ✗ SLO: {'; '.join(sorted(asked))} (? holds with some seeds)\n" if asked else ""
    ends = "a drain ends at a total lag of one lagThreshold, of each policy its own"
    text = f"{told}a reaction ends with the first added pod, even if enough ran before; {ends}"
    console.print(f"{text}\n{error_text(one.name for one in kept)}", style="dim")


def _print_measures(
    console: Terminal, measures: Sequence[NamedMeasure], summaries: Summaries, marks: Marks
) -> None:
    """Print a row for each measure and a column for each policy; of many, a table each."""

    def cell(policy: str, of: NamedMeasure) -> str:
        return f"{summaries[policy][of.name].text(of)} {marks.get((policy, of.name), '')}".rstrip()

    if len(summaries) > _MOST_COLUMNS:
        for one in measures:
            rows = [(name, cell(name, one)) for name in summaries]
            console.table(("", one.heading), rows, right=(one.heading,))
    else:
        rows_of = [(one.heading, *(cell(name, one) for name in summaries)) for one in measures]
        headings = ("", *summaries)
        console.table(headings, rows_of, right=list(summaries), folded=headings)
    console.print("median (lowest to highest seed); – never happened", style="dim")


def _print_policies(
    console: Terminal, kept: Sequence[NamedMeasure], summaries: Summaries, marks: Marks
) -> None:
    """Print a row for each policy with the medians of six measures, the lowest ones marked."""
    measures = {one.name: one for one in kept if one.name in _DECIDING}
    shorts = {name: short for name, short in _DECIDING.items() if name in measures}
    rows: list[list[str | Text]] = [[policy] for policy in summaries]
    for name in shorts:
        found = [of[name] for of in summaries.values()]
        texts = [measures[name].number(one.median) for one in found]
        whole = {
            one.median: text
            for one, text in zip(found, texts, strict=True)
            if one.median is not None and not one.missing
        }
        best = whole[min(whole)] if len({*texts}) > 1 and whole else ""
        for row, text, one in zip(rows, texts, found, strict=True):
            is_partial = one.missing and one.median is not None
            mark = "†" if is_partial else "*" if text == best else " "
            judged = marks.get((str(row[0]), name), "").replace("✓", "")
            row.append(Text(f"{text}{judged}{mark}", "bold green" if mark == "*" else ""))
    console.table(("policy", *shorts.values()), rows, right=list(shorts.values()))
    legend = "; ".join(f"{short}: {measures[name].heading}" for name, short in shorts.items())
    console.print(
        f"medians; * lowest; – never happened; † not with each seed\n{legend}", style="dim"
    )
    console.print("--all has every measure with its range", style="dim")
