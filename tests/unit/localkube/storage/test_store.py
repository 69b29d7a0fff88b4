"""The store: versions, conflicts, history."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.localkube.objects import copy_of
from lagbench.localkube.storage import store as store_module
from lagbench.localkube.storage.resources import CONFIG_MAP
from lagbench.localkube.storage.store import Change, Store


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
