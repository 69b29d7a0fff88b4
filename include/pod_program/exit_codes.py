"""The exit codes of every program."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of the ``lagbench`` command."""

    PASS = 0
    SLO_FAILED = 1
    WRONG_INPUT = 2
    NOT_READY = 3
    UNDETERMINED = 4
