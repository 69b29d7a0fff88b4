"""A condition that begins is one event, also over a triggerer's restart."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.fake_kube import FakeKube

from lagbench.core.live.beginnings import Beginnings
from lagbench.errors import NotReady
from lagbench_airflow.hooks import kube

from airflow.models.trigger import Trigger  # isort: skip
from airflow.serialization.encoders import encode_trigger  # isort: skip
from airflow.triggers.base import BaseEventTrigger  # isort: skip
from lagbench_airflow.triggers.condition import Condition, KeptClients, Reading  # isort: skip
from lagbench_airflow.triggers.conditions import Lag, ReplicasAtCeiling  # isort: skip
from lagbench_airflow.triggers.events import ConditionEventTrigger  # isort: skip


def fired(watch: Beginnings, readings: str) -> list[int]:
    """Return the seconds with an event; one reading a second: x holds, . does not, ? fails."""
    meant = {"x": True, ".": False, "?": None}
    return [
        now
        for now, reading in enumerate(readings)
        if watch.has_begun(is_met=meant[reading], now=float(now))
    ]


@pytest.mark.parametrize(
    ("numbers", "readings", "events"),
    [
        ((0, 0, 0), "xxx.xx", [0, 4]),
        ((2, 0, 0), ".xx.xxxx", [6]),  # held for two seconds
        ((2, 0, 0), "xx?xxx", [5]),  # a failed reading breaks it
        ((0, 2, 0), "x.x...x", [0, 6]),  # an end lasts two seconds
        ((0, 2, 0), "x.?..x", [0]),  # nothing is known of the failed one
        ((0, 0, 5), "x.xxxxx", [0, 5]),  # at least five apart: it still holds then
    ],
)
def test_an_event_is_a_beginning(
    numbers: tuple[int, int, int], readings: str, events: list[int]
) -> None:
    """It has held, had ended since the one before, and is not too near to it."""
    assert fired(Beginnings(*numbers), readings) == events


@dataclass(kw_only=True)
class Played(Condition):
    """Reads what the test has written; a letter as above, then it holds."""

    name: str
    readings = iter("")

    def read(self, clients: KeptClients) -> Reading:
        """Take the next letter."""
        letter = next(type(self).readings, "x")
        if letter == "?":
            raise NotReady("the broker is away")
        return Reading(letter == "x", {"letter": letter})


class Store(dict[str, Any]):
    """The state of an asset."""

    async def aget(self, key: str) -> Any:
        """Return it."""
        return self.get(key)

    async def aset(self, key: str, value: Any) -> None:
        """Keep it."""
        self[key] = value


def watched(readings: str, store: Store | None, *, seconds: float) -> list[dict[str, Any]]:
    """Return the events of a triggerer that lives for some seconds."""
    Played.readings = iter(readings)
    given = {"rearm_seconds": 0, "least_seconds": 0, "poll_seconds": 0.01}
    first = ConditionEventTrigger(condition=Played(name="a"), **given)
    trigger = ConditionEventTrigger(**first.serialize()[1])
    trigger.asset_state_store = store
    found: list[dict[str, Any]] = []

    async def collect() -> None:
        async def take() -> None:
            async for event in trigger.run():
                found.append(dict(event.payload))  # noqa: PERF401 - it never ends

        task = asyncio.create_task(take())
        await asyncio.wait([task], timeout=seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(collect())
    return found


@pytest.mark.parametrize(("has_store", "again"), [(True, 0), (False, 1)])
def test_the_triggerer_that_takes_over_does_not_fire_again(has_store: bool, again: int) -> None:
    """What has fired is in the state of the asset; without one it is not known."""
    store = Store() if has_store else None

    (event,) = watched(".x?x", store, seconds=0.5)
    assert (event["begins"], event["seen"]) == ("Played", {"letter": "x"})
    assert len(watched("x", store, seconds=0.5)) == again
    assert len(watched(".", store, seconds=0.5)) == 1


def test_equal_watches_are_one_trigger() -> None:
    """Airflow knows a watch by its arguments, before and after they were stored."""
    made = [
        ConditionEventTrigger(condition=Lag(topic="t", group="g", threshold_records=1, is_above=up))
        for up in (True, True, False)
    ]
    hashes = [BaseEventTrigger.hash(*trigger.serialize()) for trigger in made]

    assert hashes[0] == hashes[1] != hashes[2]
    written = encode_trigger(made[0])
    stored = Trigger(classpath=written["classpath"], kwargs=written["kwargs"])
    assert BaseEventTrigger.hash(stored.classpath, stored.kwargs) == hashes[0]


@pytest.mark.parametrize(("wanted", "is_met"), [(4, True), (3, False), (None, False)])
def test_replicas_are_at_the_ceiling(
    monkeypatch: pytest.MonkeyPatch, wanted: int | None, is_met: bool
) -> None:
    """Of the HPA that KEDA made for the ScaledObject."""
    server = FakeKube()
    monkeypatch.setattr(kube, "open_kube", lambda *_: server)
    spec = {"scaleTargetRef": {"name": "c"}, "maxReplicaCount": 4}
    server.apply({"kind": "ScaledObject", "metadata": {"name": "o"}, "spec": spec})
    status = {} if wanted is None else {"desiredReplicas": wanted}
    server.objects["HorizontalPodAutoscaler", "keda-hpa-o"]["status"] = status

    assert ReplicasAtCeiling(scaled_object="o").read(KeptClients()).is_met is is_met
    assert not ReplicasAtCeiling(scaled_object="other").read(KeptClients()).is_met
