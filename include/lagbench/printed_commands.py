"""Say how ``lagbench`` is called from the current folder: a printed command runs as printed.

Texts name the command ``lagbench``. Where they are shown, that becomes ``.venv/bin/lagbench`` for a
caller who has not activated the virtual environment.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import textwrap
from pathlib import Path

CALLED_AS = "LAGBENCH_CALLED_AS"
"""Variable with which Airflow's processes, and the reports that they write, know it."""

VERBS = (
    *("up", "down", "status", "doctor", "ui", "run", "watch", "scenarios", "policies", "new"),
    *("plan", "simulate", "experiment", "policy", "explain", "observe", "show", "compare"),
    *("history", "account", "report", "baseline", "advise", "trace", "calibrate"),
)
_NAME = "lagbench"
COMMAND = re.compile(rf"(?<![\w./-]){_NAME}(?= (?:{'|'.join(VERBS)})\b)")


_WITH_ARGUMENTS = re.compile(
    rf"\S*{_NAME} (?:{'|'.join(VERBS)})\b"
    r"(?: check| alerts| from-\w+| '[^']*'| --?[\w-]+(?: \w\S*)?| [^ ]*[A-Z/_=.…\d][^ ]*)*"
)
_NO_BREAK = "\ue000"


def wrapped(text: str, width: int, prefix: str = "") -> list[str]:
    """Return the lines of a message; a command stays on one line, however long, to be copied."""
    lines = []
    for line in text.splitlines():
        whole = _WITH_ARGUMENTS.sub(lambda it: it[0].replace(" ", _NO_BREAK), runnable(line))
        indent = " " * (len(line) - len(line.lstrip()))
        lines += textwrap.wrap(
            whole.strip(),
            width,
            initial_indent=prefix + indent,
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        prefix = ""
    return [line.replace(_NO_BREAK, " ") for line in lines] or [prefix]


def called_as(program: str) -> str:
    """Return how a shell starts ``program`` (the ``argv[0]`` of this command) again."""
    path, found = Path(program), shutil.which(_NAME)
    is_on_path = found is not None and Path(found).resolve() == path.resolve()
    if path.name != _NAME or "/" not in program or is_on_path:
        return _NAME
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def command_name() -> str:
    """Return how lagbench was called; ``lagbench`` where no command started this process."""
    return os.environ.get(CALLED_AS) or _NAME


def runnable(text: str) -> str:
    """Return a text whose commands run as printed."""
    return COMMAND.sub(lambda _: command_name(), text)
