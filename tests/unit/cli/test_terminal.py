"""The console on which foreign text is text."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lagbench.cli.terminal import Terminal
from lagbench.project import PROJECT_ROOT
from lagbench.shown import printable

HOSTILE = (
    "\x1b[31mRED\x1b[0m \x1b]0;TITLE\x07\x9b2Jone\x9d52;c;AA\x9c \x07\x08\rtwo\x7f :x: [red]b[/red]"
)


@pytest.mark.parametrize("shape", ["text", "str", "table", "panel"])
def test_foreign_text_is_text(shape: str) -> None:
    """No escape reaches the terminal, in whatever it is laid out; rich's own colours do."""
    output = io.StringIO()
    console = Terminal(file=output, width=200, force_terminal=True, color_system="standard")
    table = Table("a")
    table.add_row(HOSTILE)
    shapes = {"text": Text(HOSTILE, "red"), "str": HOSTILE, "table": table, "panel": Panel(HOSTILE)}

    console.print(shapes[shape])

    written = re.sub(r"\x1b\[[\d;]*m", "", output.getvalue())
    assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", written) == []
    words = "RED one two :x: [red]b[/red]" if shape != "text" else ":x: [red]b[/red]"
    assert words in re.sub(" +", " ", written)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("a\nb\tc é", "a\nb\tc é"),
        ("a\x1b]0;never ended\nb", "a]0;never ended\nb"),
        ("a\u202eb\u2066", "ab"),
        ("\x1bPq\x1b\\a\x90x\x9cb", "ab"),
    ],
)
def test_what_a_terminal_obeys_is_left_out(given: str, seen: str) -> None:
    """What begins a sequence without an end hides nothing."""
    assert printable(given) == seen


def test_text_of_beginnings_only_is_read_once() -> None:
    """Each was once looked for to the end: 200,000 of them took minutes."""
    began_at = time.monotonic()

    assert printable("\x9d" * 200_000) == ""
    assert time.monotonic() - began_at < 5


def test_no_command_makes_a_console_of_its_own() -> None:
    """Nor does a plug-in."""
    files = [*PROJECT_ROOT.glob("include/lagbench/**/*.py"), *PROJECT_ROOT.glob("plugins/**/*.py")]
    makes = [one.name for one in files if re.search(r"\bConsole\(", one.read_text())]

    assert makes == []
