"""The arithmetic of the Deployment controller."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lagbench.localkube.controllers.controller import Controller, hash_of
from lagbench.localkube.controllers.deployments import roll_limits, scale_down_order
from lagbench.localkube.controllers.events import KEPT_SECONDS, EventExpiry
from lagbench.localkube.kube_objects import JsonObject, name_of
from lagbench.localkube.storage.object_registry import Registry
from lagbench.localkube.storage.object_store import Store
from lagbench.localkube.storage.resources import EVENT, NAMESPACE


def pod(
    name: str,
    *,
    phase: str = "Running",
    ready_at: int = 0,
    created_at: int = 0,
    cost: int = 0,
    restarts: int = 0,
) -> dict[str, Any]:
    """Return a pod with what the order looks at; it is ready when it ever was."""
    notes = {
        "lagbench.io/created-at-ns": str(created_at),
        "controller.kubernetes.io/pod-deletion-cost": str(cost),
    }
    if ready_at:
        notes["lagbench.io/ready-at-ns"] = str(ready_at)
    ready = {"type": "Ready", "status": "True" if ready_at else "False"}
    return {
        "metadata": {"name": name, "annotations": notes},
        "status": {
            "phase": phase,
            "conditions": [ready],
            "containerStatuses": [{"restartCount": restarts}],
        },
    }


def test_the_scale_down_order() -> None:
    """Pending, then not ready, then cheap, then ready last, then restarted, then youngest."""
    pods = [
        pod("oldest", ready_at=10, created_at=1),
        pod("younger", ready_at=10, created_at=2),
        pod("restarted", ready_at=10, created_at=1, restarts=3),
        pod("ready-later", ready_at=20, created_at=1),
        pod("cheap", ready_at=5, created_at=1, cost=-1),
        pod("unready", created_at=1),
        pod("pending", phase="Pending", created_at=1),
    ]

    names = [found["metadata"]["name"] for found in scale_down_order(pods)]

    assert names == [
        "pending",
        "unready",
        "cheap",
        "ready-later",
        "restarted",
        "younger",
        "oldest",
    ]


@pytest.mark.parametrize(
    ("surge", "unavailable", "wanted", "expected"),
    [
        ("25%", "25%", 4, (1, 1)),
        ("25%", "25%", 1, (1, 0)),
        ("25%", "25%", 10, (3, 2)),
        (0, 0, 5, (0, 1)),
        (2, "100%", 3, (2, 3)),
        (0, 9, 3, (0, 3)),
    ],
)
def test_rollout_limits(
    surge: object, unavailable: object, wanted: int, expected: tuple[int, int]
) -> None:
    """Surplus rounds up, missing rounds down, and a rollout can always move."""
    limits = roll_limits({"maxSurge": surge, "maxUnavailable": unavailable}, wanted)

    assert limits == expected


PLACE = "bench"


class Cluster:
    """A store and its clock, in seconds."""

    def __init__(self) -> None:
        """Start empty at 0 s."""
        self.now = 0.0
        self.registry = Registry(Store())
        self.expiry = EventExpiry(self.registry.store, clock=lambda: self.now)
        self.registry.create(NAMESPACE, {"metadata": {"name": PLACE}}, "")

    def write(self, name: str) -> JsonObject:
        """Create an event as a client does."""
        return self.registry.create(EVENT, {"metadata": {"name": name}}, PLACE)

    def names(self) -> list[str]:
        """Return the events that are left now."""
        self.expiry.expire()
        return [name_of(event) for event in self.registry.store.select(EVENT, PLACE)]


def test_an_event_is_removed_an_hour_after_it_was_written() -> None:
    """Each has its own hour, and other objects stay."""
    cluster = Cluster()
    cluster.write("first")
    cluster.now = 100.0
    cluster.write("second")

    cluster.now = KEPT_SECONDS - 1
    assert cluster.names() == ["first", "second"]
    cluster.now = KEPT_SECONDS
    assert cluster.names() == ["second"]
    cluster.now = KEPT_SECONDS + 100
    assert cluster.names() == []
    assert cluster.registry.store.find(NAMESPACE, "", PLACE) is not None


def test_a_repeated_event_begins_its_hour_again() -> None:
    """A raised count is a write: the event that is still repeated stays."""
    cluster = Cluster()
    cluster.write("often")
    cluster.write("once")
    cluster.now = KEPT_SECONDS - 1
    cluster.registry.change(EVENT, PLACE, "often", lambda event: event.update(count=2))

    cluster.now = KEPT_SECONDS
    assert cluster.names() == ["often"]


def test_the_hash_follows_the_template() -> None:
    """Equal templates have one hash whatever their order, different ones differ."""
    one = {"spec": {"a": 1, "b": 2}}

    assert hash_of(one) == hash_of({"spec": {"b": 2, "a": 1}})
    assert hash_of(one) != hash_of({"spec": {"a": 1, "b": 3}})
    assert len(hash_of(one)) == 10


@pytest.mark.parametrize(
    ("ready", "needed", "expected"),
    [("False", 0, None), ("True", None, 0.0), ("True", 30, 20.0), ("True", 5, 0.0)],
)
def test_a_pod_is_available_when_it_was_ready_long_enough(
    ready: str, needed: int | None, expected: float | None
) -> None:
    """An unready pod has no such instant; minReadySeconds counts from the change to ready."""
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "1970-01-01T00:00:00Z"}
    pod: dict[str, Any] = {"status": {"conditions": [condition]}}
    workload: dict[str, Any] = {"spec": {"minReadySeconds": needed}}

    registry = SimpleNamespace(now_ns=lambda: 10 * 1_000_000_000)
    controller: Any = SimpleNamespace(registry=registry, look_again=lambda *_: None)

    assert Controller.seconds_until_available(controller, workload, pod) == expected
