"""Patchers of the manifests beside the load and the consumers: recorder, lag scaler, companions."""

from __future__ import annotations

import pytest
from tests.unit.plugins.conftest import workload

from lagbench.core.cluster.manifests import (
    RunTarget,
    claim_for_cluster,
    companion_for_run,
    lag_scaler_for_run,
    recorder_for_run,
)
from lagbench.core.cluster.policy_manifest import iggy_addresses, policy_for_run
from lagbench.core.cluster.settings import ClusterSettings
from lagbench.core.scenario.run_names import (
    RUN_ID_LABEL,
    RunNames,
)

NAMES = RunNames("quick-spike-1")
TARGET = RunTarget(NAMES, "127.0.0.1:19092")


def test_the_recorder_logs_in_with_its_settings() -> None:
    """A kubeconfig reaches the recorder by environment; without one it uses its account."""
    base = workload("Deployment", "recorder")

    with_file = recorder_for_run(base, TARGET, kubeconfig="/state/kubeconfig")
    without = recorder_for_run(base, TARGET)

    def names(manifest: dict[str, object]) -> set[str]:
        container = manifest["spec"]["template"]["spec"]["containers"][0]  # type: ignore[index]
        return {entry["name"] for entry in container["env"]}

    assert "KUBECONFIG" in names(with_file)
    assert "KUBECONFIG" not in names(without)


@pytest.mark.parametrize(
    ("asked", "on_embedded", "on_cluster"),
    [(None, "on", "off"), (True, "on", "on"), (False, "off", "off")],
)
def test_aliases_of_metrics_are_for_the_embedded_bench(
    asked: bool | None, on_embedded: str, on_cluster: str
) -> None:
    """On a cluster other exporters may tell the same series, so there they must be asked for."""
    target = RunTarget(NAMES, "kafka:9092", ClusterSettings(metric_aliases=asked))

    for is_embedded, switch in ((True, on_embedded), (False, on_cluster)):
        made = recorder_for_run(workload("Deployment", "recorder"), target, is_embedded=is_embedded)
        arguments = made["spec"]["template"]["spec"]["containers"][0]["args"]
        assert f"--metric-aliases={switch}" in arguments


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


CLUSTER = ClusterSettings(namespace="spikes", image="example.com/programs:1", storage_class="fast")
ELSEWHERE = RunTarget(NAMES, "kafka:9092", CLUSTER)


def test_the_recorder_watches_the_run_s_namespace() -> None:
    """Its flag and its image follow the cluster's settings."""
    made = recorder_for_run(workload("Deployment", "recorder"), ELSEWHERE)

    container = made["spec"]["template"]["spec"]["containers"][0]
    assert "--namespace=spikes" in container["args"]
    assert container["image"] == "example.com/programs:1"


def test_a_companion_s_subjects_move_with_it() -> None:
    """A RoleBinding in another namespace names the account there."""
    binding = {
        "kind": "RoleBinding",
        "metadata": {"name": "recorder"},
        "subjects": [{"kind": "ServiceAccount", "name": "recorder", "namespace": "lagbench"}],
    }

    made = companion_for_run(binding, ELSEWHERE)

    assert made["subjects"][0]["namespace"] == "spikes"
    assert made["metadata"]["labels"] == {RUN_ID_LABEL: NAMES.run_id}


def test_a_budget_covers_the_run_s_pods_alone() -> None:
    """Its selector names the run, which the pods' template carries."""
    selector = {"matchLabels": {"app": "consumer"}}
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "consumer"},
        "spec": {"maxUnavailable": 1, "selector": selector},
    }

    made = companion_for_run(budget, ELSEWHERE)

    wanted = {"app": "consumer", RUN_ID_LABEL: NAMES.run_id}
    assert made["spec"]["selector"] == {"matchLabels": wanted}
    assert selector == {"matchLabels": {"app": "consumer"}}


def test_the_lag_scaler_knows_the_runs_kafka_as_its_own() -> None:
    """Its own address is the only one to which it sends the login that the pods of a run have."""
    made = lag_scaler_for_run(
        workload("Deployment", "lagbench-lag-scaler"), TARGET, iggy_addresses=["iggy"]
    )

    (container,) = made["spec"]["template"]["spec"]["containers"]
    values = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert values["KAFKA_BROKERS"] == "127.0.0.1:19092"
    assert values["ALLOWED_BROKERS"] == "127.0.0.1:19092,iggy:8090"


def test_the_iggy_servers_of_a_policy_are_those_that_its_lag_scaler_reads() -> None:
    """A run allows them beside its own Kafka."""
    address = "lagbench-lag-scaler.lagbench:6000"
    metadata = [
        {"scalerAddress": address, "source": "iggy", "serverAddress": "iggy:8090"},
        {"scalerAddress": address, "consumerGroup": "g"},
        {"scalerAddress": "another:6000", "serverAddress": "evil:1"},
    ]
    triggers = [{"type": "external", "metadata": each} for each in metadata]

    assert iggy_addresses({"spec": {"triggers": triggers}}) == ["iggy:8090"]


def test_the_scaler_s_storage_is_a_setting() -> None:
    """A class goes into the claim; with `none` there is no claim and the volume is a folder."""
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "state"}, "spec": {}}
    deployment = workload("Deployment", "lagbench-lag-scaler")
    volume = {"name": "state", "persistentVolumeClaim": {"claimName": "state"}}
    deployment["spec"]["template"]["spec"]["volumes"] = [volume]
    nowhere = RunTarget(NAMES, "kafka:9092", ClusterSettings(storage_class="none"))

    made = claim_for_cluster(claim, RunTarget(NAMES, "kafka:9092", CLUSTER))

    assert made is not None
    assert (made["metadata"]["namespace"], made["spec"]["storageClassName"]) == ("spikes", "fast")
    assert claim_for_cluster(claim, nowhere) is None
    volumes = lag_scaler_for_run(deployment, nowhere)["spec"]["template"]["spec"]["volumes"]
    assert volumes == [{"name": "state", "emptyDir": {}}]
    kept = lag_scaler_for_run(deployment, ELSEWHERE)["spec"]["template"]["spec"]["volumes"]
    assert kept == [volume]
