"""Play actions on the clock of the stream, each in a thread of its own, and stamp them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from lagbench.core.telemetry.actions import ActionEnded, ActionStarted
from lagbench.core.telemetry.record import Record
from lagbench.errors import LagbenchError
from lagbench.programs.actions.performer import Performer
from lagbench.programs.actions.stream_state import StreamState

log = logging.getLogger(__name__)
NO_TARGET = "no target"


class Player:
    """Plays the actions of one run, once."""

    def __init__(
        self,
        state: StreamState,
        send: Callable[[Record], None],
        now_ns: Callable[[], int],
        source: str,
    ) -> None:
        """Stamp with ``now_ns`` (unix nanoseconds) and ``send`` the records."""
        self._state, self._send, self._now_ns, self._source = state, send, now_ns, source
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, performers: Sequence[Performer[Any]]) -> None:
        """Wait for the begin of each action in a thread."""
        for performer in performers:
            name = f"action-{performer.number}"
            self._threads.append(
                threading.Thread(target=self._play, args=(performer,), name=name, daemon=True)
            )
        for thread in self._threads:
            thread.start()

    def is_done(self) -> bool:
        """Return whether every action has ended, or will never begin."""
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self, within_seconds: float) -> bool:
        """Undo what lasts, and begin nothing more; returns whether all ended in time."""
        self._stopping.set()
        self._state.wake()
        for thread in self._threads:
            thread.join(within_seconds / max(1, len(self._threads)))
        return self.is_done()

    def _play(self, performer: Performer[Any]) -> None:
        number, action = performer.number, performer.action
        if not self._state.await_begin(action, self._stopping):
            log.warning("actions.%d (%s) was not played: the run ended before", number, action.kind)
            return
        error, targets = "", list[str]()
        try:
            targets = performer.choose()
        except LagbenchError as problem:
            error = f"{NO_TARGET}: {problem}"
        self._report(
            ActionStarted, performer, targets=targets, planned_at=self._state.planned_at(action)
        )
        log.info("actions.%d (%s) begins on %s", number, action.kind, ", ".join(targets))
        if not error:
            error = self._act(performer)
        came, detail = performer.came, performer.detail
        self._report(ActionEnded, performer, error=error, came=came, detail=detail)
        log.info("actions.%d (%s) ended%s", number, action.kind, f": {error}" if error else "")

    def _report(self, kind: type[Record], performer: Performer[Any], **fields: Any) -> None:
        own = {"number": performer.number, "action": performer.action.kind}
        self._send(kind(at=self._now_ns(), source=self._source, **own, **fields))

    def _act(self, performer: Performer[Any]) -> str:
        """Act, hold and undo; returns why one of them failed, empty if none did."""
        problems = []
        try:
            performer.act()
            performer.hold(self._stopping)
        except Exception as problem:
            log.exception("actions.%d failed", performer.number)
            problems.append(f"{type(problem).__name__}: {problem}")
        try:
            performer.undo()
        except Exception as problem:
            log.exception("actions.%d was not undone", performer.number)
            problems.append(f"not undone: {problem}")
        if not problems and self._stopping.is_set():
            problems.append("the run ended before the action's end")
        return "; ".join(problems)
