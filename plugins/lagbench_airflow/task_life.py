"""lagbench's two families of errors in Airflow's terms."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from lagbench.errors import PodsEnded, PodsRefused, WrongInput
from lagbench.printed_commands import runnable

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

log = logging.getLogger(__name__)

REFUSED = "refused"
"""Key of the result of ``plan_cell`` that says why it made no run folder."""


@contextmanager
def wrong_input_is_final() -> Iterator[None]:
    """Fail without retries on wrong input and pods that cannot work; NotReady is retried.

    The log has the message as a line of its own: in a traceback it is cut off.
    """
    try:
        yield
    except (WrongInput, PodsRefused, PodsEnded) as error:
        text = runnable(str(error))
        log.error("%s", text)
        raise AirflowFailException(text) from error


def require(task_id: str, field: str, value: object, allowed: str, *, holds: bool) -> None:
    """Reject an argument of a task when the Dag is read, unless it ``holds``."""
    if not holds:
        raise WrongInput(where=f"task {task_id}", field=field, value=value, allowed=allowed)


def make_numbers(task: BaseOperator, fields: Iterable[str], *, is_rendered: bool) -> None:
    """Make each field of a task a number that is 0 or more, in seconds for a timedelta.

    None stays; before it ``is_rendered`` also a template, or the result of another task.
    """
    for field in fields:
        value, number = getattr(task, field), None
        with suppress(TypeError, ValueError):
            number = value.total_seconds() if isinstance(value, timedelta) else float(value)
        holds = number >= 0 if number is not None else value is None or not is_rendered
        require(task.task_id, field, value, "0 or more", holds=holds)
        if number is not None:
            setattr(task, field, int(number) if number.is_integer() else number)


class TaskKilled(BaseException):
    """Airflow ends the task.

    No ``Exception``: a handler of errors must not continue the work. Airflow repeats the task if it
    has retries left and was not marked as failed.
    """


@contextmanager
def ends_when_killed() -> Iterator[None]:
    """Raise ``TaskKilled`` in the body at the first SIGTERM; for the main thread.

    Airflow's own handler, which is called first, calls ``on_kill`` and returns. The task would then
    continue until it is killed after some seconds, and what it creates beside the teardown would
    stay. ``on_kill`` cannot raise instead, because Airflow calls it after a timeout, too, and a
    task that has timed out would have no retry.
    """
    before, own_pid, is_ending = signal.getsignal(signal.SIGTERM), os.getpid(), False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        if callable(before):
            before(number, frame)
        if not is_ending and os.getpid() == own_pid:
            is_ending = True
            raise TaskKilled("the task was killed (SIGTERM)")

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
