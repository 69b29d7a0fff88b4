"""The arithmetic of the Deployment controller."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.localkube.controllers.deployments import roll_limits, scale_down_order


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
