"""Print a table whole: a run id is never truncated, whatever the terminal's width."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_ANY_WIDTH = 100_000


def width_of(console: Console, table: Table) -> int:
    """Return the columns that the table needs without truncation."""
    options = console.options.update(width=_ANY_WIDTH)
    return Measurement.get(console, options, table).maximum


def print_whole(console: Console, table: Table) -> None:
    """Print the table in its full width; a narrow terminal breaks the lines."""
    narrow = console.width
    console.width = max(narrow, width_of(console, table))
    console.print(table)
    console.width = narrow
