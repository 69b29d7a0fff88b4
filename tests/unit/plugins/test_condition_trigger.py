"""The shape of every trigger."""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.core.measures.rebalance.watched_group import GroupLook, WatchedGroup
from lagbench.errors import NotReady, WrongInput

from lagbench_airflow.triggers.condition import ConditionTrigger, Reading, run_inline  # isort: skip
from lagbench_airflow.triggers.consumer_group import ConsumerGroupStableTrigger  # isort: skip
from lagbench_airflow.triggers.consumer_lag import (  # isort: skip
    ConsumerLagAboveTrigger,
    ConsumerLagAtMostTrigger,
    RunLagAboveTrigger,
)
from lagbench_airflow.triggers.producer_job import TrafficFinishedTrigger  # isort: skip
from lagbench_airflow.triggers.rebalances import WatchRebalancesTrigger  # isort: skip
from lagbench_airflow.triggers.replicas import ReplicasSettledTrigger  # isort: skip
from lagbench_airflow.triggers.run_group import RunGroupStableTrigger  # isort: skip

BOUNDS = {"deadline_at": 1.5, "hold_seconds": 2.0, "poll_seconds": 0.5}
KUBE, KAFKA = {"kubernetes_conn_id": "k"}, {"kafka_conn_id": "q"}
LAG = {"topic": "t", "group": "g", "threshold_records": 5, "per_partition": True}
LOOK = {"at_seconds": 1.0, "state": "STABLE", "holdings": [["m", [["t", 0]]]]}
WATCHED = WatchedGroup.first(GroupLook.model_validate(LOOK)).model_dump(mode="json")
TRIGGERS: list[ConditionTrigger] = [
    ConsumerGroupStableTrigger(group="g", topic="t", members=2, **KAFKA, **BOUNDS),
    RunGroupStableTrigger(run_id="r", workload="Deployment", **KUBE, **KAFKA, **BOUNDS),
    RunGroupStableTrigger(
        run_id="r", workload="Deployment", has_members=False, **KUBE, **KAFKA, **BOUNDS
    ),
    ConsumerLagAboveTrigger(**LAG, **KAFKA, **BOUNDS),
    RunLagAboveTrigger(run_id="r", traffic_ends_at=7.5, **LAG, **KUBE, **KAFKA, **BOUNDS),
    ConsumerLagAtMostTrigger(**LAG, **KAFKA, **BOUNDS),
    TrafficFinishedTrigger(job="j", ends_at=7.5, **KUBE, **BOUNDS),
    ReplicasSettledTrigger(workload="w", namespace="n", least=1, most=2, **KUBE, **BOUNDS),
    ReplicasSettledTrigger(workload="w", run_id="r", **KUBE, **BOUNDS),
    WatchRebalancesTrigger(
        group="g", max_rebalances=1, watched=WATCHED, fires_from_at=9.0, **KAFKA, **BOUNDS
    ),
]


class Scripted(ConditionTrigger):
    """Reads one script entry after the other; the last one stays."""

    def __init__(
        self, *script: Any, wait_seconds: float = 600.0, hold_seconds: float = 0.0
    ) -> None:
        """Begin the wait now."""
        super().__init__(
            deadline_at=time.time() + wait_seconds, hold_seconds=hold_seconds, poll_seconds=0.01
        )
        self.script = list(script)
        self.reads = 0

    def parameters(self) -> dict[str, Any]:
        """Have none."""
        return {}

    def read(self) -> Reading:
        """Return or raise the next entry."""
        self.reads += 1
        entry = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(entry, Exception):
            raise entry
        assert isinstance(entry, Reading)
        return entry


YES, NO = Reading(is_met=True, seen={"n": 1}), Reading(is_met=False, seen={"n": 0})


def test_fires_once_when_the_condition_holds() -> None:
    """The first reading that meets the condition ends the wait."""
    trigger = Scripted(NO, NO, YES)

    assert run_inline(trigger) == {"reason": "reached", "seen": {"n": 1}}


def test_yields_exactly_one_event() -> None:
    """The run of a trigger ends with its event."""

    async def all_events() -> list[Any]:
        return [event async for event in Scripted(YES).run()]

    assert len(asyncio.run(all_events())) == 1


@pytest.mark.parametrize("relapse", [NO, NotReady("the broker is away")])
def test_the_condition_must_hold(
    monkeypatch: pytest.MonkeyPatch, relapse: Reading | NotReady
) -> None:
    """A relapse, or a failed reading, begins the hold again: it counts from the third one on."""
    trigger = Scripted(YES, relapse, YES, hold_seconds=2.0)
    a_second_each = SimpleNamespace(monotonic=lambda: float(trigger.reads), time=time.time)
    monkeypatch.setattr("lagbench_airflow.triggers.condition.time", a_second_each)

    assert run_inline(trigger)["reason"] == "reached"
    assert trigger.reads == 5


def test_the_deadline_ends_the_wait() -> None:
    """After the deadline the event says what was seen last."""
    trigger = Scripted(NO, wait_seconds=0.05)

    assert run_inline(trigger) == {"reason": "timed_out", "seen": {"n": 0}}


def test_an_outage_is_waited_out() -> None:
    """A reading that fails is tried again and breaks the hold."""
    trigger = Scripted(NotReady("the broker is away"), YES)

    assert run_inline(trigger)["reason"] == "reached"


def test_an_outage_is_reported_at_the_deadline() -> None:
    """When the world stays away the event carries the last error."""
    event = run_inline(Scripted(NotReady("the broker is away"), wait_seconds=0.05))

    assert event["reason"] == "timed_out"
    assert "the broker is away" in event["seen"]["error"]


def test_wrong_input_ends_the_wait() -> None:
    """What no retry can mend is reported at once."""
    wrong = WrongInput(where="w", field="f", value=1, allowed="2")

    assert run_inline(Scripted(wrong))["reason"] == "refused"


def test_a_moot_condition_ends_the_wait() -> None:
    """A condition that can no longer come true is not waited for."""
    assert run_inline(Scripted(Reading(False, {}, is_moot=True)))["reason"] == "moot"


def test_a_reading_does_not_block_the_loop() -> None:
    """Other triggers of the triggerer run while one reads."""
    has_ticked, found = threading.Event(), []

    class Slow(Scripted):
        def read(self) -> Reading:
            found.append(has_ticked.wait(60))
            return super().read()

    async def tick() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        has_ticked.set()

    async def wait() -> None:
        async for _ in Slow(YES).run():
            pass

    async def both() -> None:
        await asyncio.gather(wait(), tick())

    asyncio.run(both())

    assert found == [True]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: type(trigger).__name__)
def test_a_trigger_survives_the_way_to_the_triggerer(trigger: ConditionTrigger) -> None:
    """What serialize returns builds the same trigger again, by its importable path."""
    path, arguments = trigger.serialize()

    module, _, name = path.rpartition(".")
    sent = json.loads(json.dumps(arguments))
    again = getattr(importlib.import_module(module), name)(**sent)
    assert again.serialize() == (path, arguments)
