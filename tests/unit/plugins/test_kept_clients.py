"""How many clients a wait opens, and that none outlives it."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.errors import NotReady, WrongInput

from lagbench_airflow.hooks import kafka, kube  # isort: skip
from lagbench_airflow.hooks.kept_clients import KeptClients  # isort: skip
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading, run_inline  # isort: skip

YES, NO = Reading(is_met=True, seen={}), Reading(is_met=False, seen={})
LIMIT_SECONDS = 60.0


class Client:
    """A client of anything, closed once."""

    def __init__(self) -> None:
        """Be open."""
        self.is_open = True
        self.is_in_use = False
        self.failure: Exception | None = None

    def close(self) -> None:
        """Reject to be closed twice or in the middle of a reading."""
        assert self.is_open
        assert not self.is_in_use
        self.is_open = False
        if self.failure is not None:
            raise self.failure


@dataclass
class Opened:
    """The clients that were opened, in order."""

    clients: list[Client] = field(default_factory=list)

    def open(self, *_: object, **__: object) -> Any:
        """Open one more."""
        self.clients.append(Client())
        return self.clients[-1]

    @property
    def still_open(self) -> int:
        """How many have not been closed."""
        return sum(client.is_open for client in self.clients)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Count what is opened."""
    opened = Opened()
    monkeypatch.setattr(kube, "open_kube", opened.open)
    monkeypatch.setattr(kafka.KafkaHook, "get_conn", opened.open)
    monkeypatch.setattr(kafka.KafkaHook, "open_lag_reader", opened.open)
    return opened


class UsesAll(ConditionTrigger):
    """Takes all three clients for each reading and does what the script says."""

    def __init__(self, *script: Reading | Exception) -> None:
        """Begin the wait now."""
        super().__init__(
            deadline_at=time.time() + LIMIT_SECONDS, hold_seconds=0.0, poll_seconds=0.001
        )
        self.script = list(script)

    def parameters(self) -> dict[str, Any]:
        """Have none."""
        return {}

    def read(self) -> Reading:
        """Return or raise the next entry, over open clients."""
        clients: list[Any] = [
            self.clients.kube("k"),
            self.clients.kafka_admin("q"),
            self.clients.lag_reader("q"),
        ]
        assert all(client.is_open for client in clients)
        entry = self.script.pop(0)
        if isinstance(entry, Exception):
            raise entry
        return entry


def test_a_wait_opens_each_client_once(opened: Opened) -> None:
    """All readings of a wait share its clients, and its end closes them."""
    run_inline(UsesAll(NO, NO, NO, YES))

    assert (len(opened.clients), opened.still_open) == (3, 0)


def test_a_failed_reading_renews_the_clients(opened: Opened) -> None:
    """After a failure that a connection may have caused the next reading has new connections."""
    event = run_inline(UsesAll(NO, NotReady("the broker was restarted"), NO, YES))

    assert event["reason"] == "reached"
    assert (len(opened.clients), opened.still_open) == (6, 0)


def test_wrong_input_closes_the_clients(opened: Opened) -> None:
    """A wait that is rejected leaves no client open."""
    run_inline(UsesAll(NO, WrongInput(where="w", field="f", value=1, allowed="2")))

    assert (len(opened.clients), opened.still_open) == (3, 0)


def test_an_unforeseen_error_closes_the_clients(opened: Opened) -> None:
    """A wait that breaks leaves no client open."""
    with pytest.raises(RuntimeError, match="a bug"):
        run_inline(UsesAll(NO, RuntimeError("a bug")))

    assert (len(opened.clients), opened.still_open) == (3, 0)


def test_a_cancelled_wait_closes_the_clients_behind_its_reading(opened: Opened) -> None:
    """A reading that was under way ends first: no client is closed while a thread uses it."""
    is_reading, may_end = threading.Event(), threading.Event()

    class Slow(UsesAll):
        def read(self) -> Reading:
            reading = super().read()
            opened.clients[0].is_in_use = True
            is_reading.set()
            may_end.wait(LIMIT_SECONDS)
            opened.clients[0].is_in_use = False
            return reading

    async def cancel_in_the_middle() -> None:
        async def wait() -> None:
            async for _ in Slow(NO, NO).run():
                pass

        waiting = asyncio.create_task(wait())
        await asyncio.to_thread(is_reading.wait, LIMIT_SECONDS)
        waiting.cancel()
        await asyncio.sleep(0.01)
        assert opened.still_open == 3
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cancel_in_the_middle())

    assert (len(opened.clients), opened.still_open) == (3, 0)


def test_two_waits_share_no_client(opened: Opened) -> None:
    """Each trigger of a triggerer has clients of its own."""

    async def both() -> None:
        async def wait() -> None:
            async for _ in UsesAll(NO, YES).run():
                pass

        await asyncio.gather(wait(), wait())

    asyncio.run(both())

    assert (len(opened.clients), opened.still_open) == (6, 0)


def test_one_that_fails_to_close_leaves_none_open(opened: Opened) -> None:
    """The others are closed anyway, and the next use opens again."""
    clients = KeptClients()
    clients.kube("k")
    clients.kafka_admin("q")
    opened.clients[-1].failure = OSError("gone")

    with pytest.raises(OSError, match="gone"):
        clients.close()

    assert opened.still_open == 0
    clients.kube("k")
    assert opened.still_open == 1
