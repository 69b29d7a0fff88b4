"""Why Kubernetes creates no pods (statuses of 1.34), and the policy of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.fakes.policies import METADATA, kafka
from tests.unit.plugins.conftest import HPA, SCALED_OBJECT, workload

from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import (
    RunTarget,
)
from lagbench.core.cluster.policy_manifest import policy_for_run
from lagbench.core.scenario.run_names import (
    BOOTSTRAP_ANNOTATION,
    RunNames,
)
from lagbench.core.workload_state import (
    imposed_cpu_limits,
    refused_pods,
    sets_cpu_limit,
    violated_level,
)
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

RECORDED = PROJECT_ROOT / "tests/data/refused_pods"
ENFORCE, WARN = "pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/warn"
FIELDS = "runAsNonRoot != true (pod must set securityContext.runAsNonRoot=true)"
WARNING = f'would violate PodSecurity "restricted:latest": {FIELDS}'


def recorded(name: str) -> dict[str, Any]:
    """Return a Deployment as the API server gave it."""
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


def namespace(**labels: str) -> dict[str, Any]:
    """Return a namespace."""
    return {"metadata": {"name": "lagbench", "labels": labels}}


@pytest.mark.parametrize(
    ("name", "named"),
    [("pod_security", "allowPrivilegeEscalation"), ("quota", "limited: pods=1")],
)
def test_a_refusal_has_its_reason_and_its_words(name: str, named: str) -> None:
    """The level of the namespace and a quota both leave a Deployment without pods."""
    refusal = refused_pods(recorded(name))

    assert refusal is not None
    assert refusal.startswith("FailedCreate: ")
    assert named in refusal


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"status": "False"}, None),
        ({"reason": "FailedDelete"}, None),
        ({"type": "Available"}, None),
        (  # a quota on ReplicaSets leaves none whose condition could say so
            {
                "type": "Progressing",
                "status": "False",
                "reason": "ReplicaSetCreateError",
                "message": "full",
            },
            "ReplicaSetCreateError: full",
        ),
    ],
)
def test_only_some_conditions_are_a_refusal(changes: dict[str, str], found: str | None) -> None:
    """Pods that cannot be deleted, or a failure that is over, keep no pod from its start."""
    deployment = recorded("pod_security")
    for condition in deployment["status"]["conditions"]:
        if condition["type"] == "ReplicaFailure":
            condition.update(changes)

    assert refused_pods(deployment) == found
    assert refused_pods({}) is None


@pytest.mark.parametrize(
    ("labels", "is_violated"),
    [
        pytest.param({ENFORCE: "restricted", WARN: "restricted"}, True, id="enforced"),
        pytest.param({ENFORCE: "baseline", WARN: "restricted"}, False, id="warned-of-only"),
        pytest.param({WARN: "restricted"}, False, id="nothing-enforced"),
        pytest.param(
            {ENFORCE: "restricted", f"{ENFORCE}-version": "v1.20"}, False, id="another-version"
        ),
    ],
)
def test_a_warning_counts_if_the_namespace_enforces_its_level(
    labels: dict[str, str], *, is_violated: bool
) -> None:
    """A namespace may warn of a stricter level than it enforces: its pods start."""
    found = violated_level(["deprecated", WARNING], namespace(**labels))

    assert found == (("restricted:latest", FIELDS) if is_violated else None)


def pod_of(**cpu_limits: str | None) -> dict[str, Any]:
    """Return a pod with a container for each name, with that limit."""
    containers = [
        {"name": name, "resources": {"limits": {"memory": "1Gi"} | ({"cpu": cpu} if cpu else {})}}
        for name, cpu in cpu_limits.items()
    ]
    return {"spec": {"containers": containers}}


@pytest.mark.parametrize(
    ("written", "found", "imposed"),
    [
        ({"consumer": None}, {"consumer": "500m"}, {"consumer": "500m"}),
        ({"consumer": None}, {"consumer": None}, {}),
        ({"consumer": "2"}, {"consumer": "2"}, {}),
        ({"consumer": None}, {"consumer": None, "sidecar": "100m"}, {}),
    ],
)
def test_a_limit_is_imposed_if_the_manifest_has_none(
    written: dict[str, str | None], found: dict[str, str | None], imposed: dict[str, str]
) -> None:
    """A limit that the manifest states is its own, and an added container is not the run's."""
    workload = {"spec": {"template": pod_of(**written)}}

    assert imposed_cpu_limits(workload, pod_of(**found)) == imposed


@pytest.mark.parametrize(
    ("item", "is_set"),
    [
        ({"type": "Container", "default": {"cpu": "500m"}}, True),
        ({"type": "Container", "max": {"cpu": "2"}}, True),
        ({"type": "Container", "default": {"memory": "1Gi"}}, False),
        ({"type": "Container", "defaultRequest": {"cpu": "100m"}}, False),
        ({"type": "Pod", "max": {"cpu": "2"}}, False),
    ],
)
def test_a_limit_range_limits_containers_by_default_or_max(
    item: dict[str, Any], *, is_set: bool
) -> None:
    """A default request and the bounds of a whole pod limit no container."""
    assert sets_cpu_limit({"spec": {"limits": [item]}}) is is_set


NAMES = RunNames("quick-spike-1")
TARGET = RunTarget(NAMES, "127.0.0.1:19092")


CLUSTER = ClusterSettings(namespace="spikes", image="example.com/programs:1", storage_class="fast")
ELSEWHERE = RunTarget(NAMES, "kafka:9092", CLUSTER)


def test_policy_is_bound_to_the_run() -> None:
    """Every kafka trigger gets the run's broker, topic and group; thresholds stay."""
    spec: Any = SCALED_OBJECT["spec"]
    triggers = [kafka(lagThreshold=text) for text in ("100", "9")]
    policy = policy_for_run({**SCALED_OBJECT, "spec": {**spec, "triggers": triggers}}, TARGET)

    own = {"topic": NAMES.events_topic, "consumerGroup": NAMES.group}
    assert [trigger["metadata"] for trigger in policy["spec"]["triggers"]] == [
        {**METADATA, "lagThreshold": text, "bootstrapServers": "127.0.0.1:19092", **own}
        for text in ("100", "9")
    ]
    assert policy["metadata"]["name"] == "consumer"
    assert policy["metadata"]["annotations"][BOOTSTRAP_ANNOTATION] == "127.0.0.1:19092"
    assert SCALED_OBJECT["metadata"] == {"name": "whatever"}


PROMETHEUS_TRIGGER = {
    "type": "prometheus",
    "metadata": {
        "serverAddress": "http://prometheus.monitoring:9090",
        "query": 'sum(kafka_consumergroup_lag{consumergroup="enrich"})',
        "threshold": "100",
    },
}


@pytest.mark.parametrize("is_embedded", [True, False], ids=["embedded", "cluster"])
def test_a_prometheus_trigger_asks_for_the_run_s_group(is_embedded: bool) -> None:
    """The embedded bench has a Prometheus of its own; on a cluster the address stays."""
    spec = {**SCALED_OBJECT["spec"], "triggers": [PROMETHEUS_TRIGGER]}

    policy = policy_for_run({**SCALED_OBJECT, "spec": spec}, TARGET, is_embedded=is_embedded)

    (trigger,) = policy["spec"]["triggers"]
    own, theirs = "http://lagbench-prometheus.lagbench:9090", "http://prometheus.monitoring:9090"
    assert trigger["metadata"] == {
        "serverAddress": own if is_embedded else theirs,
        "query": f'sum(kafka_consumergroup_lag{{consumergroup="{NAMES.group}"}})',
        "threshold": "100",
    }


def test_only_a_scaled_object_or_an_hpa_is_a_policy() -> None:
    """An HPA gets the same name; anything else is rejected by its kind."""
    assert policy_for_run(HPA, TARGET)["metadata"]["name"] == "consumer"
    with pytest.raises(WrongInput) as refused:
        policy_for_run(workload("Deployment", "consumer"), TARGET)

    assert (refused.value.field, refused.value.value) == ("kind", "Deployment")


def test_a_policy_without_a_kind_scales_the_consumers_workload() -> None:
    """KEDA would look for a Deployment; beside one the policy stays as it is written."""
    stateful = policy_for_run(SCALED_OBJECT, replace(TARGET, workload="StatefulSet"))

    assert stateful["spec"]["scaleTargetRef"] == {"name": "consumer", "kind": "StatefulSet"}
    assert policy_for_run(SCALED_OBJECT, TARGET)["spec"]["scaleTargetRef"] == {"name": "consumer"}


@pytest.mark.parametrize("name", ["lagbench-lag-scaler", "lagbench-external-scaler"])
def test_a_policy_dials_the_scaler_of_its_own_namespace(name: str) -> None:
    """In another namespace the lag scaler's address follows, also from its earlier name."""
    address = f"{name}.lagbench.svc.cluster.local:6001"
    trigger = {"type": "external", "metadata": {"scalerAddress": address}}
    policy = SCALED_OBJECT | {"spec": SCALED_OBJECT["spec"] | {"triggers": [trigger]}}

    made = policy_for_run(policy, ELSEWHERE)

    dialled = made["spec"]["triggers"][0]["metadata"]["scalerAddress"]
    assert dialled == "lagbench-lag-scaler.spikes:6001"
    assert made["metadata"]["namespace"] == "spikes"


def test_the_lag_scaler_gets_the_runs_topic_and_group() -> None:
    """An external trigger about a Kafka group is filled in; cron, Iggy and others are not."""
    lag = {"type": "external", "metadata": {"scalerAddress": "s:6000", "consumerGroup": "g"}}
    iggy = {"type": "external", "metadata": {"source": "iggy", "consumerGroupId": "g"}}
    other = {"type": "external", "metadata": {"scalerAddress": "s:6000"}}
    cron = {"type": "cron", "metadata": {"start": "0 8 * * *"}}
    policy = {
        "kind": "ScaledObject",
        "metadata": {},
        "spec": {"triggers": [lag, iggy, other, cron]},
    }
    target = RunTarget(RunNames("r1"), "broker:9092")

    first, *rest = policy_for_run(policy, target)["spec"]["triggers"]

    assert first["metadata"] == {
        "scalerAddress": "s:6000",
        "bootstrapServers": "broker:9092",
        "topic": "lagbench.r1.events",
        "consumerGroup": "enrich.r1",
    }
    assert rest == [iggy, other, cron]
