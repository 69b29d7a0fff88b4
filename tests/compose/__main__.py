"""``python -m tests.compose [--short] [PYTEST ARGUMENTS]``: run docker compose on an engine.

``--short`` builds all images, starts the services, rehearses once and takes all of it down: where
the time is not enough for the whole suite. Arguments that name files or folders are run instead.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.compose.prepare import prepare

NOT_READY = 3
# In the order of a user's day: one stack serves them all, and the last ones take it down.
_FILES = ("start", "rehearsal", "images", "restart", "end")
_NOT_IN_SHORT = {"images", "restart"}
SHORT = "--short"


def main(arguments: list[str]) -> int:
    """Run the suite and return pytest's exit code; 3 where no engine can run."""
    reason = prepare(lambda line: sys.stderr.write(f"{line}\n"))
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return NOT_READY
    for_pytest = [argument for argument in arguments if argument != SHORT]
    named = any(Path(argument.split("::")[0]).exists() for argument in for_pytest)
    files = () if named else suite(is_short=SHORT in arguments)
    return int(pytest.main([*files, "--verbose", *for_pytest]))


def suite(*, is_short: bool) -> list[str]:
    """Return the files of the whole suite or of its short form, in their order."""
    names = [name for name in _FILES if not is_short or name not in _NOT_IN_SHORT]
    return [f"tests/compose/test_{name}.py" for name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
