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
    from lagbench.core.compare import experiment_page as page

    headings = [text.format(first=one.first, second=one.second) for text in page.HEADINGS]
    rows = [
        with_colour(page.difference_row(found, noise), found.verdict)
        for found in page.in_order(one.differences)
    ]
    title = f"{one.second} minus {one.first}, {len(one.pairs)} pairs"
    right = [heading for heading in headings if heading != "measure"]
    console.table(headings, rows, title=title, right=right, folded=headings)
    lines = [f"{found.title}: {found.text}" for found in page.tested(one.differences)]
    lines += filter(None, [page.not_measured(one.differences)])
    for line in (*lines, *(f"left out: {reason}" for reason in one.left_out)):
        console.say(f"  {line}")
