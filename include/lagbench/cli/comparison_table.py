"""Print the differences of two cells: a row for each measure, then a sentence for each test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from lagbench.cli.terminal import Row, Terminal

if TYPE_CHECKING:
    from lagbench.core.compare.experiment_result import CellComparison
    from lagbench.core.compare.noise_floor import NoiseFloor

_COLOURS = {"differs": "yellow", "equivalent": "green", "undetermined": "dim", "listed": "dim"}
_COLOURS |= {"shown": "green", "refuted": "yellow"}


def with_colour(row: Sequence[str], verdict: str) -> Row:
    """Return a row whose last cell has the colour of the verdict."""
    return (*row[:-1], Text(row[-1], style=_COLOURS.get(verdict, "")))


def print_comparison(console: Terminal, one: CellComparison, noise: NoiseFloor | None) -> None:
    """Print one cell against another, and why pairs are missing."""
    from lagbench.core.compare.experiment_page import ComparisonTable

    table = ComparisonTable.of(one, noise)
    rows = [with_colour(row, row[-1]) for row in table.rows]
    right = [heading for heading in table.headings if heading != "measure"]
    console.table(table.headings, rows, title=table.title, right=right, folded=table.headings)
    for sentence in table.sentences:
        console.say(f"  {sentence}")
