"""How every wait reads, holds, ends, and keeps its clients."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.core.measures.rebalance_episodes import GroupLook, WatchedGroup
from lagbench.core.scenario.run_names import RunNames
from lagbench.errors import NotReady, WrongInput

from lagbench_airflow.hooks import kafka, kube  # isort: skip
from lagbench_airflow.triggers import condition as condition_module  # isort: skip
from lagbench_airflow.triggers import conditions as conditions_module  # isort: skip
from lagbench_airflow.triggers.condition import (  # isort: skip
    Condition,
    ConditionTrigger,
    KeptClients,
    Reading,
    run_inline,
)
from lagbench_airflow.triggers.conditions import (  # isort: skip
    GroupStable,
    Lag,
    ReplicasSettled,
    TooManyRebalances,
)
from lagbench_airflow.triggers.run_conditions import (
    ActionsPlayed,
    RunGroupStable,
    TrafficFinished,
)

KUBE, KAFKA = {"kubernetes_conn_id": "k"}, {"kafka_conn_id": "q"}
LAG = {"topic": "t", "group": "g", "threshold_records": 5, "per_partition": True, **KAFKA}
LOOK = {"at_seconds": 1.0, "state": "STABLE", "holdings": [["m", [["t", 0]]]]}
WATCHED = WatchedGroup.first(GroupLook.model_validate(LOOK)).model_dump(mode="json")
CONDITIONS: list[Any] = [
    GroupStable(group="g", topic="t", members=2, **KAFKA),
    RunGroupStable.of(RunNames("r"), kind="Deployment", has_members=False, **KUBE, **KAFKA),
    Lag(is_above=True, job="j", traffic_ends_at=7.5, **LAG, **KUBE),
    Lag(is_above=False, late_until_at=7.5, **LAG),
    TrafficFinished(job="j", ends_at=7.5, **KUBE),
    ActionsPlayed(job="j", **KUBE),
    ReplicasSettled(workload="w", namespace="n", least=1, most=2, run_id="r", **KUBE),
    TooManyRebalances(group="g", max_rebalances=1, watched=WATCHED, fires_from_at=9.0, **KAFKA),
]
YES, NO = Reading(is_met=True, seen={"n": 1}), Reading(is_met=False, seen={"n": 0})
AWAY = NotReady("the broker is away")
WRONG = WrongInput(where="w", field="f", value=1, allowed="2")
LIMIT_SECONDS = 60.0


@dataclass
class Scripted(Condition):
    """Reads one script entry after the other; the last one stays."""

    script: list[Any]
    reads: int = 0

    def read(self, clients: KeptClients) -> Reading:
        """Return or raise the next entry."""
        self.reads += 1
        entry = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(entry, Exception):
            raise entry
        assert isinstance(entry, Reading)
        return entry


class UsesAll(Scripted):
    """Takes all three clients for each reading."""

    def read(self, clients: KeptClients) -> Reading:
        """Read over open clients."""
        taken: list[Any] = [clients.kube("k"), clients.kafka_admin("q"), clients.lag_reader("q")]
        assert all(client.is_open for client in taken)
        return super().read(clients)


def waiting_for(
    *conditions: Condition, wait_seconds: float = 600.0, hold_seconds: float = 0.0
) -> ConditionTrigger:
    """Begin the wait now, for one condition or for those of two groups."""
    names = ("",) if len(conditions) == 1 else ("first_group", "second_group")
    return ConditionTrigger(
        conditions=dict(zip(names, conditions, strict=True)),
        deadline_at=time.time() + wait_seconds,
        hold_seconds=hold_seconds,
        poll_seconds=0.001,
    )


def test_a_log_says_once_what_a_consumer_s_last_commit_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lag stands for 40 s, of 900 that the wait may last; then it is committed."""
    now, lags = [0.0], iter([122, 122, 122, 122, 122, 0])
    monkeypatch.setattr(conditions_module.time, "time", lambda: now[0])
    monkeypatch.setattr(condition_module, "LOG_SECONDS", 0.0)

    def read(_group: str, _topic: str) -> dict[int, int]:
        now[0] += 10.0
        return {0: next(lags)}

    monkeypatch.setattr(
        KeptClients, "lag_reader", lambda *_: SimpleNamespace(lags=read, close=lambda: None)
    )
    late = Lag(is_above=False, late_until_at=910.0, **LAG | {"threshold_records": 0})
    trigger = waiting_for(late)
    trigger.deadline_at = 1e9

    assert run_inline(trigger)["reason"] == "reached"

    said = re.findall(r"no commit for (\d+) s, 122 .* up to (\d+) s", capsys.readouterr().out)
    assert set(said) == {("30", "870")}


@pytest.mark.parametrize(
    ("script", "event"),
    [
        ([NO, NO, YES], {"reason": "reached", "seen": {"n": 1}}),
        ([AWAY, YES], {"reason": "reached", "seen": {"n": 1}}),
        ([NO], {"reason": "timed_out", "seen": {"n": 0}}),
        ([NO, AWAY], {"reason": "timed_out", "seen": {"n": 0, "error": str(AWAY)}}),
        ([WRONG], {"reason": "refused", "seen": {"error": str(WRONG)}}),
        ([Reading(False, {}, is_moot=True)], {"reason": "moot", "seen": {}}),
    ],
)
def test_a_wait_ends_with_one_event(script: list[Any], event: dict[str, Any]) -> None:
    """Reached, at the deadline, or at once when waiting is useless; an outage is waited out."""
    assert run_inline(waiting_for(Scripted(script), wait_seconds=0.05)) == event


@pytest.mark.parametrize("relapse", [NO, AWAY])
def test_the_condition_must_hold(
    monkeypatch: pytest.MonkeyPatch, relapse: Reading | NotReady
) -> None:
    """A relapse, or a failed reading, begins the hold again: it counts from the third one on."""
    scripted = Scripted([YES, relapse, YES])
    a_second_each = SimpleNamespace(monotonic=lambda: float(scripted.reads), time=time.time)
    monkeypatch.setattr(condition_module, "time", a_second_each)

    assert run_inline(waiting_for(scripted, hold_seconds=2.0))["reason"] == "reached"
    assert scripted.reads == 5


def test_a_reading_does_not_block_the_loop() -> None:
    """Other triggers of the triggerer run while one reads."""
    has_ticked, found = threading.Event(), []

    class Slow(Scripted):
        def read(self, clients: KeptClients) -> Reading:
            found.append(has_ticked.wait(LIMIT_SECONDS))
            return super().read(clients)

    async def tick() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        has_ticked.set()

    async def both() -> None:
        await asyncio.gather(ended(waiting_for(Slow([YES]))), tick())

    asyncio.run(both())

    assert found == [True]


def test_the_log_has_the_goal_and_how_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line every five seconds and at each change, in each of the ways to wait."""
    scripted = Scripted([*[NO] * 7, AWAY, YES, Reading(is_met=True, seen={"lag": 4248})])
    a_second_each = SimpleNamespace(monotonic=lambda: float(scripted.reads), time=time.time)
    monkeypatch.setattr(condition_module, "time", a_second_each)
    trigger, said = waiting_for(scripted, hold_seconds=6.0), list[str]()
    monkeypatch.setattr(trigger.log, "info", lambda text, *values: said.append(text % values))

    run_inline(trigger)

    standing = ["not yet: n 0", "not yet: n 0", f"cannot read: {AWAY}", "holds: n 1"]
    assert said == ["waiting for: Scripted, for 6 s", *standing, "holds: lag 4,248"]
    assert {condition.goal() for condition in CONDITIONS} >= {
        "group g stable with 2 members, each partition of t with one owner",
        "all pods of Deployment consumer ready",
        "a partition's lag of group g above 5",
        "1 to 2 pods of Deployment w, all in place",
    }


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: type(condition).__name__)
def test_a_wait_survives_the_way_to_the_triggerer(condition: Condition) -> None:
    """What serialize returns builds the same trigger again."""
    trigger = waiting_for(condition, Scripted([]))
    trigger.met = {"second_group": YES}
    del trigger.conditions["second_group"]

    path, arguments = trigger.serialize()

    assert path == "lagbench_airflow.triggers.condition.ConditionTrigger"
    again = ConditionTrigger(**json.loads(json.dumps(arguments)))
    assert again.serialize() == (path, arguments)


@dataclass
class Between(Condition):
    """Is met from reading ``since`` to reading ``until``, and then gone for good if ``ends``."""

    since: int
    until: int = 99
    ends: bool = False
    readings: int = field(default=0)

    def read(self, clients: KeptClients) -> Reading:
        """Count."""
        self.readings += 1
        is_met = self.since <= self.readings <= self.until
        reading = Reading(is_met=is_met, seen={"reading": self.readings})
        return replace(reading, is_moot=self.ends and self.readings > self.until)


def test_a_wait_for_two_groups_is_for_the_slower_one() -> None:
    """It fires with the last of them, and reports both."""
    event = run_inline(waiting_for(Between(2), Between(4)))

    assert event["reason"] == "reached"
    assert event["seen"] == {"first_group": {"reading": 2}, "second_group": {"reading": 4}}


@pytest.mark.parametrize(("hold_seconds", "reason"), [(0.0, "reached"), (0.001, "timed_out")])
def test_a_moment_counts_once_and_a_state_must_hold_in_both(
    hold_seconds: float, reason: str
) -> None:
    """One group's lag may drain before the other's builds up; one's rest alone is none."""
    trigger = waiting_for(Between(1, 2), Between(4, 5), hold_seconds=hold_seconds)
    trigger.deadline_at = 4e9 if reason == "reached" else 0.0

    assert run_inline(trigger)["reason"] == reason


def test_what_one_group_has_met_survives_the_deferral() -> None:
    """Its condition can no longer be met in the triggerer, which still waits for the other's."""
    trigger = waiting_for(Between(1, 1, ends=True), Between(3))
    trigger.deadline_at = 0.0
    assert run_inline(trigger)["reason"] == "timed_out"
    _, arguments = trigger.serialize()

    event = run_inline(ConditionTrigger(**arguments | {"deadline_at": 4e9}))

    assert event["reason"] == "reached"
    assert event["seen"] == {"first_group": {"reading": 1}, "second_group": {"reading": 3}}


class Client:
    """A client of anything, closed once."""

    def __init__(self) -> None:
        """Be open."""
        self.is_open, self.is_in_use = True, False
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
    def counts(self) -> tuple[int, int]:
        """How many were opened, and how many of them have not been closed."""
        return len(self.clients), sum(client.is_open for client in self.clients)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Count what is opened."""
    opened = Opened()
    monkeypatch.setattr(kube, "open_kube", opened.open)
    monkeypatch.setattr(kafka.KafkaHook, "get_conn", opened.open)
    monkeypatch.setattr(kafka.KafkaHook, "open_lag_reader", opened.open)
    return opened


@pytest.mark.parametrize(
    ("script", "number"),
    [
        ([NO, NO, NO, YES], 3),
        ([NO, AWAY, NO, YES], 6),
        ([NO, WRONG], 3),
        ([NO, RuntimeError("a bug")], 3),
    ],
)
def test_a_wait_opens_each_client_once(opened: Opened, script: list[Any], number: int) -> None:
    """After a failure that a connection may have caused new ones are opened; none outlives it."""
    is_broken = isinstance(script[-1], RuntimeError)
    with pytest.raises(RuntimeError) if is_broken else nullcontext():
        run_inline(waiting_for(UsesAll(script)))

    assert opened.counts == (number, 0)


def test_a_cancelled_wait_closes_the_clients_behind_its_reading(opened: Opened) -> None:
    """A reading that was under way ends first: no client is closed while a thread uses it."""
    is_reading, may_end = threading.Event(), threading.Event()

    class Slow(UsesAll):
        def read(self, clients: KeptClients) -> Reading:
            reading = super().read(clients)
            opened.clients[0].is_in_use = True
            is_reading.set()
            may_end.wait(LIMIT_SECONDS)
            opened.clients[0].is_in_use = False
            return reading

    async def cancel_in_the_middle() -> None:
        waiting = asyncio.create_task(ended(waiting_for(Slow([NO]))))
        await asyncio.to_thread(is_reading.wait, LIMIT_SECONDS)
        waiting.cancel()
        await asyncio.sleep(0.01)
        assert opened.counts == (3, 3)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cancel_in_the_middle())

    assert opened.counts == (3, 0)


def test_two_waits_share_no_client(opened: Opened) -> None:
    """Each trigger of a triggerer has clients of its own."""

    async def both() -> None:
        await asyncio.gather(*(ended(waiting_for(UsesAll([NO, YES]))) for _ in range(2)))

    asyncio.run(both())

    assert opened.counts == (6, 0)


def test_one_that_fails_to_close_leaves_none_open(opened: Opened) -> None:
    """The others are closed anyway, and the next use opens again."""
    clients = KeptClients()
    clients.kube("k")
    clients.kafka_admin("q")
    opened.clients[-1].failure = OSError("gone")

    with pytest.raises(OSError, match="gone"):
        clients.close()

    assert opened.counts == (2, 0)
    clients.kube("k")
    assert opened.counts == (3, 1)


async def ended(trigger: ConditionTrigger) -> None:
    """Wait as a triggerer does."""
    async for _ in trigger.run():
        pass
