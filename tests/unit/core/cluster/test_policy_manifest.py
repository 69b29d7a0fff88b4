"""The policy of a run: the committed one, bound to the run's Kafka, namespace and workload."""

from __future__ import annotations

from dataclasses import replace

import pytest
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
from lagbench.errors import WrongInput

NAMES = RunNames("quick-spike-1")
TARGET = RunTarget(NAMES, "127.0.0.1:19092")


CLUSTER = ClusterSettings(namespace="spikes", image="example.com/programs:1", storage_class="fast")
ELSEWHERE = RunTarget(NAMES, "kafka:9092", CLUSTER)


def test_policy_is_bound_to_the_run() -> None:
    """Every kafka trigger gets the run's broker, topic and group; thresholds stay."""
    policy = policy_for_run(SCALED_OBJECT, TARGET)

    assert policy["spec"]["triggers"][0]["metadata"] == {
        "lagThreshold": "100",
        "bootstrapServers": "127.0.0.1:19092",
        "topic": NAMES.events_topic,
        "consumerGroup": NAMES.group,
    }
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


def test_an_hpa_is_a_policy_too() -> None:
    """An HPA gets the same name and annotations."""
    assert policy_for_run(HPA, TARGET)["metadata"]["name"] == "consumer"


def test_other_kinds_are_no_policy() -> None:
    """Anything but a ScaledObject or an HPA is rejected by its kind."""
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
