"""One kind of wait: read a condition, judge, hold, and yield exactly one event."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from lagbench.core.workload_state import JobEnd, job_end
from lagbench.errors import NotReady, PodsEnded, WrongInput
from lagbench_airflow.hooks import kafka, kube

if TYPE_CHECKING:
    from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
    from lagbench.adapters.kafka.kafka_lag import LagClient
    from lagbench.adapters.kube.kube import Kube

LOG_SECONDS = 5.0
"""Between two lines of a task's log, if the condition does not change."""

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
    lines: tuple[str, ...] = ()
    """New ones for the task's log."""


class KeptClients:
    """Keeps the clients of one wait: a poll must not cost the measured servers a log-in.

    After ``close`` it opens new ones. Only one thread at a time may use it, but not always the same
    one.
    """

    def __init__(self) -> None:
        """Open nothing yet."""
        self._kept: dict[tuple[str, str], Any] = {}

    def kube(self, conn_id: str, namespace: str | None = None) -> Kube:
        """Return the client of a cluster; without a namespace in that of the connection."""
        found: Kube = self._client("kube", conn_id, lambda: kube.open_kube(conn_id))
        return found if namespace is None else found.elsewhere(namespace)

    def job_end(self, conn_id: str, job: str) -> JobEnd | None:
        """Return how a Job of a cluster has ended; None: it runs."""
        return job_end(self.kube(conn_id).get("Job", job))

    def kafka_admin(self, conn_id: str) -> KafkaAdmin:
        """Return the administrator of a Kafka."""
        found: KafkaAdmin = self._client("admin", conn_id, kafka.KafkaHook(conn_id).get_conn)
        return found

    def lag_reader(self, conn_id: str) -> LagClient:
        """Return the reader of lag in a Kafka."""
        opened = kafka.KafkaHook(conn_id).open_lag_reader
        found: LagClient = self._client("lag", conn_id, opened)
        return found

    def _client(self, kind: str, conn_id: str, opened: Callable[[], Any]) -> Any:
        if (kind, conn_id) not in self._kept:
            self._kept[kind, conn_id] = opened()
        return self._kept[kind, conn_id]

    def close(self) -> None:
        """Close all open clients, even if closing one of them fails."""
        with ExitStack() as closing:
            for client in self._kept.values():
                closing.callback(client.close)
            self._kept.clear()


class Condition(ABC):
    """The state to wait for; a dataclass of JSON values, so that a triggerer can make it again."""

    @abstractmethod
    def read(self, clients: KeptClients) -> Reading:
        """Read once; may block (it runs in a thread), must change nothing."""

    def end(self, clients: KeptClients) -> None:  # noqa: B027 - most have nothing to end
        """End what the task has started, which a user has killed; by default nothing."""

    def goal(self) -> str:
        """Return the state in words, for the task's log."""
        return type(self).__name__


class ConditionTrigger(BaseTrigger):
    """Fires once its conditions have held for ``hold_seconds``, or at ``deadline_at``.

    The conditions of a run with two consumer groups have the names of their groups; a single one
    has the empty name. Those that are to hold for some time must hold together. Without such a time
    each counts once it was met (``met`` has what was seen then), because it may have ended in one
    group before it begins in the other.

    The deadline is an instant (unix seconds), not a duration: a trigger that moves to another
    triggerer must not restart its wait. It does not read before ``not_before_at``: see
    ``DEFERRAL_SETTLES_SECONDS``. A failed reading breaks the hold and is repeated over new
    connections, because an outage of the broker is part of a rehearsal. With ``finishes_hold`` (not
    for a triggerer) the deadline does not cut off conditions that hold.
    """

    def __init__(
        self,
        *,
        conditions: Mapping[str, Any],
        deadline_at: float,
        hold_seconds: float,
        poll_seconds: float,
        not_before_at: float = 0.0,
        met: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Keep the conditions, or make them from what ``serialize`` has returned."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.conditions = {name: made(condition) for name, condition in conditions.items()}
        self.deadline_at, self.not_before_at = deadline_at, not_before_at
        self.hold_seconds, self.poll_seconds = hold_seconds, poll_seconds
        self.met = {name: Reading(is_met=True, seen=dict(one)) for name, one in (met or {}).items()}
        self.finishes_hold = False
        self._clients = KeptClients()
        self._clients_in_use = threading.Lock()
        self._said_at, self._said = -LOG_SECONDS, ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and all arguments."""
        conditions = {name: written(one) for name, one in self.conditions.items()}
        names = ("deadline_at", "hold_seconds", "poll_seconds", "not_before_at")
        return f"{__name__}.ConditionTrigger", {
            "conditions": conditions,
            **{name: getattr(self, name) for name in names},
            "met": {name: reading.seen for name, reading in self.met.items()},
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the reason for the wait's end, and the last reading."""
        try:
            reason, seen = await self._end()
        finally:
            # A reading in progress when the wait was cancelled continues in its thread. The clients
            # are closed after it, even if this wait for it is cancelled too.
            await asyncio.shield(asyncio.to_thread(self.close_clients))
        yield TriggerEvent({"reason": reason.value, "seen": seen})  # type: ignore[no-untyped-call]

    async def _end(self) -> tuple[Reason, dict[str, Any]]:
        held_since: float | None = None
        seen: dict[str, Any] = {}
        await asyncio.sleep(max(0.0, self.not_before_at - time.time()))
        while True:
            try:
                reading = await asyncio.to_thread(self.look)
            except (WrongInput, PodsEnded) as error:
                return Reason.REFUSED, {"error": str(error)}
            if isinstance(reading, str):
                self._say("cannot read", reading)
                held_since, seen = None, seen | {"error": reading}
            else:
                for line in reading.lines:
                    self.log.info("%s", line)
                self._say("holds" if reading.is_met else "not yet", values_text(reading.seen))
                seen = reading.seen
                held_since = (held_since or time.monotonic()) if reading.is_met else None
                if held_since is not None and time.monotonic() - held_since >= self.hold_seconds:
                    return Reason.REACHED, seen
                if reading.is_moot:
                    return Reason.MOOT, seen
            is_holding = held_since is not None
            left = self.deadline_at - time.time()
            if left <= 0 and not (is_holding and self.finishes_hold):
                return Reason.TIMED_OUT, seen
            pause = min(self.poll_seconds, HOLD_LOOK_SECONDS) if is_holding else self.poll_seconds
            await asyncio.sleep(min(pause, left) if left > 0 else pause)

    async def on_kill(self) -> None:
        """End what the killed task has started."""
        await asyncio.to_thread(self._end_started)

    def _end_started(self) -> None:
        with self._clients_in_use, closing(self._clients) as clients:
            for condition in self.conditions.values():
                condition.end(clients)

    def _say(self, standing: str, text: str) -> None:
        """Log a reading, if it is due or the condition has changed; before the first, the goal."""
        now = time.monotonic()
        if not self._said:
            goals = "; ".join(condition.goal() for condition in self.conditions.values())
            held = f", for {self.hold_seconds:g} s" if self.hold_seconds else ""
            self.log.info("waiting for: %s%s", goals, held)
        if standing != self._said or now - self._said_at >= LOG_SECONDS:
            self._said, self._said_at = standing, now
            self.log.info("%s: %s", standing, text)

    def look(self) -> Reading | str:
        """Read; after a failure that a connection may have caused, the next reading opens new ones.

        The error must not leave this thread: it references the client, and the thread that drops
        the last reference to a client of Kafka waits until that client has ended.
        """
        with self._clients_in_use:
            try:
                return self._read_all()
            except PodsEnded:
                raise
            except NotReady as error:
                outage = str(error)
            self._clients.close()
            return outage

    def _read_all(self) -> Reading:
        readings = {}
        for name, condition in self.conditions.items():
            reading = self.met[name] if name in self.met else condition.read(self._clients)
            if reading.is_met and not self.hold_seconds and len(self.conditions) > 1:
                self.met[name] = reading
            readings[name] = reading
        if "" in readings:
            return readings[""]
        return Reading(
            is_met=all(reading.is_met for reading in readings.values()),
            seen={name: reading.seen for name, reading in readings.items()},
            is_moot=any(reading.is_moot for reading in readings.values()),
        )

    def close_clients(self) -> None:
        """Close them when no reading uses them."""
        with self._clients_in_use:
            self._clients.close()


def values_text(seen: Mapping[str, Any]) -> str:
    """Return the values of a reading as text: ``total lag 4,248, largest partition lag 812``."""

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            return f"({values_text(value)})"
        return f"{value:,}" if type(value) is int else str(value)

    return ", ".join(f"{name.replace('_', ' ')} {text(value)}" for name, value in seen.items())


def written(condition: Condition) -> list[Any]:
    """Return the condition as JSON, of which ``made`` makes it again."""
    kind = type(condition)
    return [f"{kind.__module__}.{kind.__qualname__}", asdict(condition)]  # type: ignore[call-overload]


def made(condition: Any) -> Condition:
    """Return the condition, or make it of what ``written`` has returned."""
    if isinstance(condition, Condition):
        return condition
    path, arguments = condition
    module, _, kind = path.rpartition(".")
    found: Condition = getattr(import_module(module), kind)(**arguments)
    return found


def run_inline(trigger: ConditionTrigger) -> dict[str, Any]:
    """Wait for the trigger in this process; the same loop as in the triggerer."""

    async def first_event() -> dict[str, Any]:
        (event,) = [dict(event.payload) async for event in trigger.run()]
        return event

    return asyncio.run(first_event())


def look_once(condition: Condition, *, hold_seconds: float, poll_seconds: float) -> dict[str, Any]:
    """Look once in this process; a condition that holds is watched until it has held, or ends."""
    trigger = ConditionTrigger(
        conditions={"": condition},
        deadline_at=0.0,
        hold_seconds=hold_seconds,
        poll_seconds=poll_seconds,
    )
    trigger.finishes_hold = True
    return run_inline(trigger)
