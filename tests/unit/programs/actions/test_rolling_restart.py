"""What a rolling restart changes in the consumers' workload."""

from __future__ import annotations

from typing import Any

from lagbench.adapters.kube.manifest_files import base_manifest
from lagbench.core.scenario import RollingRestart
from lagbench.programs.actions.deployment_actions import restart_changes


def changes(**fields: Any) -> dict[str, Any]:
    """Return the spec that such a restart merges into the committed Deployment."""
    action = RollingRestart.model_validate({"kind": "rolling_restart", "at_seconds": 1, **fields})
    spec: dict[str, Any] = restart_changes(
        base_manifest("consumer", "Deployment"), action, stamp="now"
    )["spec"]
    return spec


def test_a_plain_restart_changes_the_annotation_alone() -> None:
    """As kubectl rollout restart does."""
    stamp = {"kubectl.kubernetes.io/restartedAt": "now"}

    assert changes() == {"template": {"metadata": {"annotations": stamp}}}


def test_a_new_balancer_is_an_argument_of_the_new_pods() -> None:
    """A merge replaces the whole list, so the container stays as it is otherwise."""
    before = base_manifest("consumer", "Deployment")["spec"]["template"]["spec"]["containers"][0]

    (container,) = changes(balancer="consumer")["template"]["spec"]["containers"]

    others = {key: value for key, value in container.items() if key != "args"}
    assert others == {key: value for key, value in before.items() if key != "args"}
    assert container["args"].count("--balancer=consumer") == 1
    assert sum(text.startswith("--balancer=") for text in container["args"]) == 1


def test_at_once_stops_all_pods_first() -> None:
    """The strategy is Recreate, without the limits of a rolling one."""
    assert changes(at_once=True)["strategy"] == {"type": "Recreate", "rollingUpdate": None}
