"""The errors that a user can meet, in two families.

``WrongInput``: what was given cannot work and never will (exit code 2, never retried).
``NotReady``: the world is not in the needed state (exit code 3, worth a retry).

A message has up to four parts: what was tried, what was seen, what is allowed, what to do next.
Errors of client libraries are mapped to these once, in ``lagbench.adapters``, and chained.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import PurePath

from lagbench.shown import cut, shown

_MOST_OF_A_PLACE = 400
_MOST_OF_WHAT_IS_ALLOWED = 3000


class ExitCode(IntEnum):
    """The exit codes of the ``lagbench`` command."""

    PASS = 0
    SLO_FAILED = 1
    WRONG_INPUT = 2
    NOT_READY = 3
    UNDETERMINED = 4


class LagbenchError(Exception):
    """Base of every error that lagbench raises on purpose."""

    exit_code = ExitCode.NOT_READY


class WrongInput(LagbenchError):
    """A file, flag or field holds a value that is not allowed."""

    exit_code = ExitCode.WRONG_INPUT

    def __init__(
        self, *, where: str, field: str, value: object, allowed: str, sentence: str | None = None
    ) -> None:
        """Name the file or flag (``where``), the field, its value and what is allowed.

        The value is cut, and one that looks like a secret is not shown.

        :param sentence: replaces the sentence that is made of the four.
        """
        value = str(value) if isinstance(value, PurePath) else value
        text = cut(allowed, _MOST_OF_WHAT_IS_ALLOWED)
        named = f"{cut(field, _MOST_OF_A_PLACE)} = {shown(value, name=field)}"
        what = sentence or f"{named} is not allowed; allowed: {text}"
        super().__init__(f"{cut(where, _MOST_OF_A_PLACE)}: {what}")
        self.where, self.field, self.value, self.allowed = where, field, value, allowed
        self.sentence = sentence

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling (Airflow moves exceptions between processes)."""
        return (
            _rebuild_wrong_input,
            (self.where, self.field, self.value, self.allowed, self.sentence),
        )


class NotReady(LagbenchError):
    """The environment lacks something that the bench needs (exit code 3)."""


class PodsRefused(NotReady):
    """Kubernetes creates no pods of a workload; the message has its words (never retried)."""


class PodsEnded(NotReady):
    """Pods of a workload end again and again; the message has their last words (never retried)."""


class NotAllowed(NotReady):
    """The account lacks a right; the message names it."""


class UnknownKind(NotReady):
    """The API server does not serve a kind of objects; the message names it."""


class StillWaiting(NotReady):
    """A condition did not come true in its time limit; the message has the last value seen."""


class StillRunning(NotReady):
    """A run does not answer and may continue, so no other is started beside it."""


def _rebuild_wrong_input(
    where: str, field: str, value: object, allowed: str, sentence: str | None
) -> WrongInput:
    return WrongInput(where=where, field=field, value=value, allowed=allowed, sentence=sentence)
