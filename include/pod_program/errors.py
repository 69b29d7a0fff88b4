"""The errors of every program, in two families.

``WrongInput``: what was given cannot work and never will (exit code 2, never retried).
``NotReady``: the world is not in the needed state (exit code 3, worth a retry).

A message has up to four parts: what was tried, what was seen, what is allowed, what to do next.
"""

from __future__ import annotations

from pathlib import PurePath

from pod_program.exit_codes import ExitCode
from pod_program.shown import cut, shown

_MOST_OF_A_PLACE = 400
_MOST_OF_WHAT_IS_ALLOWED = 3000


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


def cannot_read(path: object, error: Exception | str, *, field: str = "file") -> WrongInput:
    """Return the error of a file that cannot be read, with the reason in a word."""
    reason = getattr(error, "strerror", None) or str(error)
    allowed, sentence = f"a readable file ({reason})", f"cannot be read: {reason}"
    return WrongInput(where=str(path), field=field, value=path, allowed=allowed, sentence=sentence)


class NotReady(LagbenchError):
    """The environment lacks something that the bench needs (exit code 3)."""


def _rebuild_wrong_input(
    where: str, field: str, value: object, allowed: str, sentence: str | None
) -> WrongInput:
    return WrongInput(where=where, field=field, value=value, allowed=allowed, sentence=sentence)
