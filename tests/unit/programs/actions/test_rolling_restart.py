"""What a rolling restart changes in the consumers' workload."""

from __future__ import annotations

from typing import Any

from tests.unit.core.cluster.consumer_pod import options_of

from lagbench.adapters.kube.manifest_files import base_manifest
from lagbench.core.scenario.actions import RollingRestart
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


def test_new_pods_read_their_new_balancer() -> None:
    """A merge replaces the whole list, so the container stays as it is otherwise."""
    spec = changes(balancer="consumer")

    assert options_of({"spec": spec}).balancer == "consumer"
    before = base_manifest("consumer", "Deployment")["spec"]["template"]["spec"]["containers"][0]
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == before["image"]
    assert container["args"] == [one for one in before["args"] if "balancer" not in one]


def test_new_variables_are_those_of_the_container_that_consumes() -> None:
    """Sidecars keep theirs; an old value of the same name, also one from a Secret, is replaced."""
    secret = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a"}}}
    run = {"name": "LAGBENCH_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    sidecar = {"name": "proxy", "env": [{"name": "A", "value": "its own"}]}
    orders = {"name": "orders", "env": [run, secret, {"name": "B", "value": "b"}]}
    workload = {"spec": {"template": {"spec": {"containers": [sidecar, orders]}}}}
    action = RollingRestart(kind="rolling_restart", at_seconds=1, env={"A": "new", "C": "c"})

    template = restart_changes(workload, action, stamp="now")["spec"]["template"]

    first, second = template["spec"]["containers"]
    assert first == sidecar
    assert second["env"] == [
        run,
        {"name": "A", "value": "new"},
        {"name": "B", "value": "b"},
        {"name": "C", "value": "c"},
    ]
    assert secret in orders["env"]


def test_at_once_stops_all_pods_first() -> None:
    """The strategy is Recreate, without the limits of a rolling one."""
    assert changes(at_once=True)["strategy"] == {"type": "Recreate", "rollingUpdate": None}
