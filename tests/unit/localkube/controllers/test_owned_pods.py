"""Readiness of a workload's pods, and the hash of its template."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lagbench.localkube.controllers.controller import Controller, hash_of


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
