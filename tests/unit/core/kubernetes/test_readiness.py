"""When an object is Ready, and since when."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.kubernetes.readiness import is_ready, ready_since, repeated_ends

SINCE = "2026-11-25T18:10:00Z"


@pytest.mark.parametrize(
    ("status", "since"),
    [
        ({"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE}]}, SINCE),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, None),
    ],
)
def test_a_ready_object_may_say_since_when(status: dict[str, Any], since: str | None) -> None:
    """Without an instant it is Ready all the same."""
    assert is_ready({"status": status})
    assert ready_since({"status": status}) == since


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"conditions": None},
        {"conditions": [{"type": "Initialized", "status": "True", "lastTransitionTime": SINCE}]},
        {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": SINCE}]},
        {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": SINCE}]},
    ],
)
def test_an_object_without_a_ready_condition_that_holds_is_not_ready(status: Any) -> None:
    """Another condition, False, and Unknown do not count."""
    assert not is_ready({"status": status})
    assert ready_since({"status": status}) is None


ONE = {"name": "main"}
TERMINATED = {"terminated": {"exitCode": 2, "reason": "Error"}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("container", "is_final"),
    [
        ({"restartCount": 2, "state": TERMINATED}, False),
        ({"restartCount": 3, "state": BACK_OFF, "lastState": TERMINATED}, True),
        ({"restartCount": 3, "state": TERMINATED}, True),
        ({"restartCount": 3, "state": {"running": {}}, "lastState": TERMINATED}, True),
        ({"restartCount": 3, "ready": True, "lastState": TERMINATED}, False),
        ({"restartCount": 3, "state": BACK_OFF}, True),
        ({}, False),
    ],
)
def test_a_container_that_ends_again_and_again_is_told(
    container: dict[str, Any], is_final: bool
) -> None:
    """At its third end, with the exit code if the API server has one; not while it is Ready."""
    found = repeated_ends({"status": {"containerStatuses": [{"name": "app"}, container | ONE]}})

    assert (found is not None) is is_final
    if found and container.get("lastState"):
        assert found == "container main ended 3 times, last with exit code 2 (Error)"
    assert repeated_ends({}) is None
