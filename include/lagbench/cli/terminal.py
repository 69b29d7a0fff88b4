"""The one console of the commands, and their one kind of table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lagbench.printed_commands import COMMAND, command_name, runnable
from pod_program.shown import printable

Row = Sequence[str | Text]


def print_json(content: object) -> None:
    """Print a document, the only thing on stdout; a number that is not finite is null."""
    from pydantic_core import to_json

    typer.echo(printable(to_json(content, indent=2, inf_nan_mode="null").decode()))


class Terminal(Console):
    """A console on which foreign text is text: no markup, no emoji, nothing a terminal obeys."""

    def __init__(self, **options: Any) -> None:
        """Take the options of ``Console``."""
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; a command in a text is written as it runs from here."""
        super().print(*map(_runnable, objects), **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text; a sequence that a highlighter would split is left out as a whole."""
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is written; the controls of ``rich`` itself stay."""
        for segment in super().render(renderable, options):
            is_own = bool(segment.control)
            yield segment if is_own else Segment(printable(segment.text), segment.style)

    def say(self, text: str | Text, style: str = "") -> None:
        """Print a line; a narrow terminal breaks it where it ends."""
        self.print(text, style=style, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a line that needs attention."""
        self.say(Text.assemble(("! ", "yellow"), text))

    def table(
        self,
        headings: Sequence[str],
        rows: Iterable[Row],
        *,
        title: str = "",
        right: Collection[str] = (),
        folded: Collection[str] = (),
    ) -> None:
        """Print a table, or its title alone without rows; numbers are ``right``.

        :param folded: the columns that go over several lines where the terminal is narrow. Without
            any the table has its full width: a run id is never cut.
        """
        table = Table(title=title or None, title_justify="left", box=None)
        for heading in headings:
            side: Any = "right" if heading in right else "left"
            table.add_column(heading, no_wrap=heading not in folded, justify=side)
        for row in rows:
            table.add_row(*map(_runnable, row))
        if not table.row_count:
            self.say(title)
            return
        narrow = self.width
        self.width = narrow if folded else max(narrow, self._width_of(table))
        self.print(table)
        self.width = narrow

    def fitting(self, headings: Sequence[str], rows: Sequence[Row], least: int) -> list[int]:
        """Return the width of a table of the first ``least`` columns, of one more, and so on."""
        widths = []
        for count in range(least, len(headings) + 1):
            table = Table(*headings[:count], box=None)
            for row in rows:
                table.add_row(*row[:count])
            widths.append(self._width_of(table))
        return widths

    def facts(self, title: str, rows: Iterable[tuple[str, str]]) -> None:
        """Print names and values."""
        table = Table(title=title, title_justify="left", box=None, show_header=False)
        table.add_column(style="bold")
        for row in rows:
            table.add_row(*map(_runnable, row))
        self.print(table)

    def _width_of(self, table: Table) -> int:
        return Measurement.get(self, self.options.update(width=100_000), table).maximum


def _runnable(shown: Any) -> Any:
    if isinstance(shown, str):
        return runnable(shown)
    if isinstance(shown, Text):
        for found in reversed(list(COMMAND.finditer(shown.plain))):
            shown = shown[: found.start()] + command_name() + shown[found.end() :]
    return shown
