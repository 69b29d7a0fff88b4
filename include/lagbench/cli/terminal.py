"""The one console of the commands, and their one kind of table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from pod_program.shown import printable

_ANY_WIDTH = 100_000


class Terminal(Console):
    """A console on which foreign text is text: no markup, no emoji, nothing a terminal obeys.

    Names of groups, members and policies, notes and logs come from elsewhere.
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of ``Console``."""
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text; a sequence that a highlighter would split is left out as a whole."""
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is written; the controls of ``rich`` itself stay."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)

    def say(self, text: str | Text, style: str = "") -> None:
        """Print a line; a narrow terminal breaks it where it ends."""
        self.print(text, style=style, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a line that needs attention."""
        self.say(Text.assemble(("! ", "yellow"), text))

    def print_whole(self, table: Table) -> None:
        """Print a table in its full width: a run id is never cut, whatever the terminal's width."""
        narrow = self.width
        self.width = max(narrow, self.width_of(table))
        self.print(table)
        self.width = narrow

    def width_of(self, table: Table) -> int:
        """Return the columns that a table needs without truncation."""
        return Measurement.get(self, self.options.update(width=_ANY_WIDTH), table).maximum


def table_of(
    headings: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    title: str = "",
    right: Collection[str] = (),
    is_whole: bool = True,
    wrapped: Collection[str] = (),
) -> Table:
    """Return a table; numbers are ``right``, and a ``wrapped`` column goes over several lines.

    :param is_whole: no cell is broken into lines, except those of ``wrapped``.
    """
    table = Table(title=title or None, title_justify="left", box=None)
    for heading in headings:
        table.add_column(
            heading,
            no_wrap=is_whole and heading not in wrapped,
            justify="right" if heading in right else "left",
        )
    for row in rows:
        table.add_row(*row)
    return table


def facts_of(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and values."""
    table = Table(title=title, title_justify="left", box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table
