"""The consumers' Deployment, its components, and the grace period that a shutdown needs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from tests.unit.core.cluster.consumer_pod import options_of
from tests.unit.k8s.base_pods import K8S, pod_spec, workloads

from lagbench.core.cluster.manifests import RunTarget, consumer_for_run
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import ConsumerSettings, Workload
from lagbench.programs.consumer.consumer_settings import ConsumerOptions

CONSUMER = workloads()["Deployment/consumer"]
TARGET = RunTarget(RunNames("quick-spike-1"), "kafka:9092")
CHANGES = {
    "cooperative-sticky": {"balancer": "cooperative-sticky"},
    "range": {"balancer": "range"},
    "kip-848": {"balancer": "consumer"},
    "static-membership": {"static_membership": True},
    "no-graceful-shutdown": {"graceful_shutdown": False},
    "transactional": {"commit": "transactional"},
}


def test_every_component_is_known_here() -> None:
    """The folder holds these components and no others."""
    known = {*CHANGES, "statefulset"}
    assert {path.name for path in (K8S / "components").iterdir()} == known


def test_the_stateful_set_component_makes_what_a_run_makes() -> None:
    """Its patch changes the committed Deployment as a run with consumer.workload does."""
    path = K8S / "components" / "statefulset" / "kustomization.yaml"
    (patch,) = yaml.safe_load(path.read_text())["patches"]
    assert patch["target"] == {"kind": "Deployment", "name": "consumer"}
    assert patch["options"] == {"allowKindChange": True}
    changed = copy.deepcopy(CONSUMER)
    for operation in yaml.safe_load(patch["patch"]):
        *parents, last = operation["path"].split("/")[1:]
        place = changed
        for name in parents:
            place = place[name]
        assert (operation["op"] == "replace") == (last in place)
        place[last] = operation["value"]

    def made(kind: Workload, base: dict[str, Any]) -> dict[str, Any]:
        return consumer_for_run(base, TARGET, ConsumerSettings(workload=kind), replicas=2)

    assert made("Deployment", changed) == made("StatefulSet", CONSUMER)


@pytest.mark.parametrize("component", CHANGES)
def test_a_component_changes_what_its_name_says(component: str) -> None:
    """The program reads the changed flag, and every other flag as in the base."""
    base = options_of(CONSUMER)

    changed = options_of(_with(CONSUMER, component))

    seen = {name: getattr(changed, name) for name in CHANGES[component]}
    assert seen == CHANGES[component]
    rest = set(ConsumerOptions.model_fields) - set(CHANGES[component])
    assert all(getattr(changed, name) == getattr(base, name) for name in rest)


def test_components_of_different_flags_go_together() -> None:
    """KIP-848, static membership and no graceful shutdown at once."""
    manifest = CONSUMER
    for component in ("kip-848", "static-membership", "no-graceful-shutdown"):
        manifest = _with(manifest, component)

    options = options_of(manifest)

    assert (options.balancer, options.static_membership, options.graceful_shutdown) == (
        "consumer",
        True,
        False,
    )


def test_two_balancers_are_refused() -> None:
    """The second component's test fails rather than hide the first one's change."""
    with pytest.raises(ValueError, match="--balancer=range"):
        _with(_with(CONSUMER, "range"), "kip-848")


def test_the_base_waits_longer_than_a_graceful_shutdown_takes() -> None:
    """The kubelet kills only after the shutdown timeout, the last flush (5 s) and leaving (5 s)."""
    grace = pod_spec(CONSUMER)["terminationGracePeriodSeconds"]

    assert grace >= options_of(CONSUMER).shutdown_timeout_seconds + 10


@pytest.mark.parametrize("shutdown_timeout_seconds", [1, 20, 29.5, 300])
def test_a_run_waits_longer_than_its_graceful_shutdown_takes(
    shutdown_timeout_seconds: float,
) -> None:
    """The grace follows a scenario's shutdown timeout, with 9 s or more to spare."""
    settings = ConsumerSettings(shutdown_timeout_seconds=shutdown_timeout_seconds)

    manifest = consumer_for_run(CONSUMER, TARGET, settings, replicas=2)

    grace = pod_spec(manifest)["terminationGracePeriodSeconds"]
    assert grace > options_of(manifest).shutdown_timeout_seconds + 9


def test_a_node_gives_up_one_consumer_at_a_time() -> None:
    """The disruption budget selects the Deployment's pods."""
    budget = yaml.safe_load((K8S / "base/consumer/disruption-budget.yaml").read_text())

    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == CONSUMER["spec"]["selector"]


def _with(manifest: dict[str, Any], component: str) -> dict[str, Any]:
    """Apply a component's JSON patch, of which the operations here are all that is used."""
    path = K8S / "components" / component / "kustomization.yaml"
    patches = yaml.safe_load(path.read_text())["patches"]
    changed = copy.deepcopy(manifest)
    for patch in patches:
        assert patch["target"] == {"kind": "Deployment", "name": "consumer"}
        for operation in yaml.safe_load(patch["patch"]):
            where = operation["path"].removeprefix("/spec/template/spec/containers/0/args/")
            arguments = pod_spec(changed)["containers"][0]["args"]
            if operation["op"] == "add":
                assert where == "-"
                arguments.append(operation["value"])
            elif operation["op"] == "replace":
                arguments[int(where)] = operation["value"]
            elif arguments[int(where)] != operation["value"]:
                raise ValueError(f"found {arguments[int(where)]}, not {operation['value']}")
    return changed
