"""The store: versions, conflicts, history."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.localkube.kube_objects import ApiError, copy_of
from lagbench.localkube.storage import object_store as store_module
from lagbench.localkube.storage.object_registry import Registry
from lagbench.localkube.storage.object_store import Change, Store
from lagbench.localkube.storage.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    SCALED_OBJECT,
    STATEFUL_SET,
    Resource,
)
from lagbench.localkube.storage.selectors import label_matcher


def named(name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    """Return an object."""
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


def test_every_change_has_a_higher_version() -> None:
    """Insert, replace and remove each raise the version, and the object carries it."""
    store = Store()

    first = store.insert(CONFIG_MAP, named("a"))
    second = store.replace(CONFIG_MAP, {**copy_of(first), "data": {"x": "1"}})
    last = store.remove(CONFIG_MAP, "default", "a")

    versions = [int(o["metadata"]["resourceVersion"]) for o in (first, second, last)]
    assert versions == sorted(set(versions))
    assert versions[-1] == store.version


def test_a_write_of_the_same_is_no_change() -> None:
    """Writing what is there already keeps the version and tells nobody."""
    store = Store()
    stored = store.insert(CONFIG_MAP, named("a"))
    heard: list[Change] = []
    store.subscribe(heard.append)

    again = store.replace(CONFIG_MAP, copy_of(stored))

    assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert heard == []


def test_listeners_hear_changes_in_order_with_the_state_before() -> None:
    """A subscriber gets ADDED, MODIFIED with the previous state, DELETED, until it unsubscribes."""
    store = Store()
    heard: list[Change] = []
    unsubscribe = store.subscribe(heard.append)
    stored = store.insert(CONFIG_MAP, named("a"))
    store.replace(CONFIG_MAP, {**copy_of(stored), "data": {"x": "1"}})
    store.remove(CONFIG_MAP, "default", "a")
    unsubscribe()
    store.insert(CONFIG_MAP, named("b"))

    assert [change.kind for change in heard] == ["ADDED", "MODIFIED", "DELETED"]
    assert heard[1].previous is stored


def test_the_history_knows_when_it_is_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes since a version are complete, or the answer is None when some were dropped."""
    monkeypatch.setattr(store_module, "_HISTORY_LENGTH", 3)
    store = Store()
    start = store.version
    for number in range(3):
        store.insert(CONFIG_MAP, named(f"n{number}"))
    complete = store.changes_since(start)
    store.insert(CONFIG_MAP, named("one-more"))

    assert complete is not None
    assert [change.obj["metadata"]["name"] for change in complete] == ["n0", "n1", "n2"]
    assert store.changes_since(start) is None
    assert store.changes_since(store.version) == []


LABELS = {"app": "web", "tier": "front", "example.com/team": "a-1"}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=web,tier=back", False),
        ("app!=web", False),
        ("missing!=x", True),
        ("tier in (front, back)", True),
        ("tier notin (front,back)", False),
        ("missing notin (x)", True),
        ("example.com/team", True),
        ("!missing", True),
        ("!app", False),
        ("app in (web),tier notin (back),example.com/team=a-1", True),
    ],
)
def test_label_selectors(selector: str, *, matches: bool) -> None:
    """Equality, sets and existence follow the API's rules; absence satisfies the negations."""
    assert label_matcher(selector)(LABELS) is matches


def test_an_unreadable_selector_is_a_bad_request() -> None:
    """What cannot be parsed is rejected, not ignored."""
    with pytest.raises(ApiError) as refused:
        label_matcher("a=b=c")

    assert refused.value.code == 400


PLACE = "bench"


@pytest.fixture
def registry() -> Registry:
    """Provide an empty cluster with one namespace."""
    made = Registry(Store())
    made.create(NAMESPACE, {"metadata": {"name": PLACE}}, "")
    return made


def create(registry: Registry, kind: Resource, **resources: Any) -> None:
    """Create a workload ``web`` whose container has these resources."""
    labels = {"app": "web"}
    container = {"name": "main", "command": ["x"], "resources": resources}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    registry.create(kind, {"metadata": {"name": "web"}, "spec": spec}, PLACE)


def scale_by_cpu(registry: Registry, kind: str) -> None:
    """Create a ScaledObject with a cpu trigger on the workload ``web``."""
    trigger = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
    target = {"kind": kind, "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicaCount": 1, "triggers": [trigger]}
    registry.create(SCALED_OBJECT, {"metadata": {"name": "x"}, "spec": spec}, PLACE)


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET])
def test_the_requests_of_the_target_decide(registry: Registry, kind: Resource) -> None:
    """A cpu trigger needs requests, and is refused while its workload has none or is missing."""
    with pytest.raises(ApiError, match=f'{kind.kind} "web"'):
        scale_by_cpu(registry, kind.kind)
    create(registry, kind)
    with pytest.raises(ApiError, match="cpu request"):
        scale_by_cpu(registry, kind.kind)


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET])
def test_a_target_with_requests_is_admitted(registry: Registry, kind: Resource) -> None:
    """The workload that the target names is read, of whichever of the two kinds it is."""
    create(registry, kind, requests={"cpu": "100m"})

    scale_by_cpu(registry, kind.kind)
