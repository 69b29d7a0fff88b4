"""``python -m tests.compose [PYTEST ARGUMENTS]``: run docker compose on an engine.

Arguments that name files or folders are run instead.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.compose.prepare import prepare

NOT_READY = 3
SUITE = "tests/compose"


def main(arguments: list[str]) -> int:
    """Run the suite and return pytest's exit code; 3 where no engine can run."""
    reason = prepare(lambda line: sys.stderr.write(f"{line}\n"))
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return NOT_READY
    named = any(Path(argument.split("::")[0]).exists() for argument in arguments)
    return int(pytest.main([*(() if named else (SUITE,)), "--verbose", *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
