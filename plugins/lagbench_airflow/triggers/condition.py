"""The base of every trigger here: read, judge, hold, and yield exactly one event."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from lagbench.errors import NotReady, PodsEnded, WrongInput
from lagbench_airflow.hooks.kept_clients import KeptClients

HOLD_LOOK_SECONDS = 1.0
"""While a condition holds it is read at least so often: a relapse between two looks is not seen."""


class Reason(StrEnum):
    """The reason why a trigger fired; the sensor turns it into words."""

    REACHED = "reached"
    TIMED_OUT = "timed_out"
    MOOT = "moot"
    """The condition can no longer become true, so further waiting is useless."""
    REFUSED = "refused"
    """The input is wrong, or the pods cannot work: no retry can help."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading: whether the condition holds, and the observed values (JSON)."""

    is_met: bool
    seen: dict[str, Any]
    is_moot: bool = False


@dataclass(frozen=True, slots=True)
class Outage:
    """A failed reading, and its reason."""

    said: str


class ConditionTrigger(BaseTrigger):
    """Fires once the condition has held for ``hold_seconds``, or at ``deadline_at``.

    It does not read before ``not_before_at``: see ``DEFERRAL_SETTLES_SECONDS``.

    The deadline is an instant (unix seconds), not a duration: a trigger that moves to another
    triggerer must not restart its wait. A failed reading breaks the hold and is repeated over new
    connections, because an outage of the broker is part of a rehearsal. With ``finishes_hold`` (not
    for a triggerer) the deadline does not cut off a condition that holds.
    """

    def __init__(
        self,
        *,
        deadline_at: float,
        hold_seconds: float,
        poll_seconds: float,
        not_before_at: float = 0.0,
    ) -> None:
        """Keep the bounds of the wait."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.deadline_at = deadline_at
        self.hold_seconds = hold_seconds
        self.poll_seconds = poll_seconds
        self.not_before_at = not_before_at
        self.finishes_hold = False
        self.clients = KeptClients()
        self._clients_in_use = threading.Lock()

    @abstractmethod
    def read(self) -> Reading:
        """Read once, with ``clients``; may block (it runs in a thread), must change nothing."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the arguments of the subclass, as JSON."""

    def continue_from(self, earlier: ConditionTrigger) -> None:
        """Take over what the trigger of the same wait before this one has found; here nothing."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and all arguments."""
        bounds = {
            "deadline_at": self.deadline_at,
            "hold_seconds": self.hold_seconds,
            "poll_seconds": self.poll_seconds,
            "not_before_at": self.not_before_at,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", self.parameters() | bounds

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the reason for the wait's end, and the last reading."""
        yield TriggerEvent(await self._wait())  # type: ignore[no-untyped-call]

    async def _wait(self) -> dict[str, Any]:
        try:
            return await self._first_event()
        finally:
            # A reading in progress when the wait was cancelled continues in its thread. The clients
            # are closed after it, even if this wait for it is cancelled too.
            await asyncio.shield(asyncio.to_thread(self._close_clients))

    async def _first_event(self) -> dict[str, Any]:
        held_since: float | None = None
        seen: dict[str, Any] = {}
        await asyncio.sleep(max(0.0, self.not_before_at - time.time()))
        while True:
            try:
                reading = await asyncio.to_thread(self._look)
            except (WrongInput, PodsEnded) as error:
                return _event(Reason.REFUSED, {"error": str(error)})
            if isinstance(reading, Outage):
                held_since, seen = None, seen | {"error": reading.said}
            else:
                seen = reading.seen
                held_since = (held_since or time.monotonic()) if reading.is_met else None
                if held_since is not None and time.monotonic() - held_since >= self.hold_seconds:
                    return _event(Reason.REACHED, seen)
                if reading.is_moot:
                    return _event(Reason.MOOT, seen)
            is_holding = held_since is not None
            if time.time() >= self.deadline_at and not (is_holding and self.finishes_hold):
                return _event(Reason.TIMED_OUT, seen)
            await asyncio.sleep(self._pause_seconds(is_holding=is_holding))

    def _pause_seconds(self, *, is_holding: bool) -> float:
        """Return the time until the next reading; one is at the deadline, none much later."""
        pause = min(self.poll_seconds, HOLD_LOOK_SECONDS) if is_holding else self.poll_seconds
        left = self.deadline_at - time.time()
        return min(pause, left) if left > 0 else pause

    def _look(self) -> Reading | Outage:
        """Read; after a failure that a connection may have caused, the next reading opens new ones.

        The error must not leave this thread: it references the client, and the thread that drops
        the last reference to a client of Kafka waits until that client has ended.
        """
        with self._clients_in_use:
            try:
                return self.read()
            except PodsEnded:
                raise
            except NotReady as error:
                outage = Outage(str(error))
            self.clients.close()
            return outage

    def _close_clients(self) -> None:
        with self._clients_in_use:
            self.clients.close()


def look_once(trigger: ConditionTrigger) -> dict[str, Any]:
    """Look once in this process; a condition that holds is watched until it has held, or ends."""
    trigger.finishes_hold = True
    return run_inline(trigger)


def run_inline(trigger: ConditionTrigger) -> dict[str, Any]:
    """Wait for the trigger in this process; the same loop as in the triggerer."""

    async def first_event() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise NotReady("the trigger ended without an event")

    return asyncio.run(first_event())


def _event(reason: Reason, seen: dict[str, Any]) -> dict[str, Any]:
    return {"reason": reason.value, "seen": seen}
