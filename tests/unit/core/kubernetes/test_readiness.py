"""When an object is Ready, and since when."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.kubernetes import is_ready, ready_since

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
