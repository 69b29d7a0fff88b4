"""Which pods can be asked for their node's clock."""

from __future__ import annotations

from typing import Any

from lagbench.programs.recorder.node_clocks import node_clocks


def pod(
    name: str, node: str, *, is_ready: bool = True, phase: str = "Running", port: str = "metrics"
) -> dict[str, Any]:
    """Return a pod."""
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "containers": [{"ports": [{"name": port, "containerPort": 8080}]}],
        },
        "status": {
            "phase": phase,
            "podIP": "10.0.0.7",
            "conditions": [{"type": "Ready", "status": str(is_ready)}],
        },
    }


def test_one_ready_pod_speaks_for_all_of_its_node() -> None:
    """A producer has no endpoint, yet it has the clock of the consumer beside it."""
    found = node_clocks(
        [pod("producer-1", "n1", port="none"), pod("consumer-1", "n1"), pod("consumer-2", "n2")]
    )

    assert [(clock.node, clock.pods) for clock in found] == [
        ("n1", ("consumer-1", "producer-1")),
        ("n2", ("consumer-2",)),
    ]


def test_a_node_without_a_ready_endpoint_is_not_asked() -> None:
    """Pods that start, ended or are being deleted do not answer."""
    ending = pod("c", "n3")
    ending["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"

    assert (
        node_clocks([pod("a", "n1", is_ready=False), pod("b", "n2", phase="Failed"), ending]) == []
    )
