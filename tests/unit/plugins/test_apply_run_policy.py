"""A policy is put into force."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from tests.unit.plugins.conftest import HPA, SCALED_OBJECT, World, execute

from lagbench.adapters.kube import cluster_check as manifest_files
from lagbench.adapters.kube.workloads import remove_workloads
from lagbench.catalog.catalog import LEFT_OUT
from lagbench.core.keda.loop.keda_hpa import CONTROLLER, SCALED_BY
from lagbench.core.keda.object.scaled_object_spec import PAUSED
from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION, RUN_ID_LABEL
from lagbench.errors import NotReady, StillWaiting
from lagbench.project import PROJECT_ROOT
from lagbench_airflow.hooks import kube as hooks_kube
from lagbench_airflow.operators.apply_run_policy import ApplyRunPolicyOperator

SCALED, SCALER = "apply ScaledObject/consumer", "apply Deployment/lagbench-lag-scaler"
HPA_OF_KEDA = ("HorizontalPodAutoscaler", "keda-hpa-consumer")
ASKS_SCALER = {
    "type": "external",
    "metadata": {"scalerAddress": "lagbench-lag-scaler.lagbench.svc.cluster.local:6000"},
}
ASKS_PROMETHEUS = {
    "type": "prometheus",
    "metadata": {
        "serverAddress": "http://prometheus.monitoring:9090",
        "query": 'sum(kafka_consumergroup_lag{consumergroup="enrich"})',
        "threshold": "100",
    },
}
CRON = {
    "type": "cron",
    "metadata": {
        "timezone": "Europe/Berlin",
        "start": "0 8 * * 1-5",
        "end": "0 18 * * 1-5",
        "desiredReplicas": "3",
    },
}


def apply(world: World, policy: dict[str, Any] | None = None) -> dict[str, Any]:
    """Put the run's policy, or this one, into force."""
    if policy is not None:
        world.with_policy(policy)
    return execute(ApplyRunPolicyOperator, world)


def scaled(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return the ScaledObject with annotations, and other fields of its spec."""
    metadata = {**SCALED_OBJECT["metadata"], "annotations": annotations or {}}
    return SCALED_OBJECT | {"metadata": metadata, "spec": SCALED_OBJECT["spec"] | spec}


NAMED = scaled(advanced={"horizontalPodAutoscalerConfig": {"name": "orders"}})


def test_the_run_s_policy_is_in_force(world: World) -> None:
    """The stored object names the run's topic, and KEDA's HPA is kept as it was taken up.

    A kafka trigger needs no server beside KEDA, and no start of the stream. What has changed is
    stored beside the run.
    """
    result = apply(world)

    stored = world.kube.objects["ScaledObject", "consumer"]
    assert stored["spec"]["triggers"][0]["metadata"]["topic"] == world.names.events_topic
    assert world.names.events_topic in world.folder.policy.read_text()
    assert result["hpa"] == "keda-hpa-consumer"
    kept = world.folder.read_json("hpa.json")
    assert kept["spec"] == {"minReplicas": 2, "maxReplicas": 4}
    assert SCALER not in world.kube.calls
    assert "stream_planned_at" not in world.folder.read_json(world.folder.manifest)
    assert apply(world)["diff"] == ""  # a retry
    assert "-  maxReplicaCount: 4" in apply(world, scaled(maxReplicaCount=8))["diff"]
    assert "+  maxReplicaCount: 8" in (world.folder.path / "policy.diff").read_text()


def test_what_a_cluster_wrote_into_the_user_s_file_is_named(world: World) -> None:
    """The policy and its difference begin with it, after a retry, too."""
    word = f"{LEFT_OUT} metadata.uid\n"
    world.folder.write_text(world.folder.policy, word + world.folder.read_text("policy.yaml"))

    for _ in range(2):
        apply(world)

    for name in ("policy.yaml", "policy.diff"):
        assert world.folder.read_text(name).startswith(word)
        assert world.folder.read_text(name).count(word) == 1


def test_a_swap_to_an_hpa_deletes_the_scaled_object_first(world: World) -> None:
    """Two autoscalers never hold the same Deployment."""
    apply(world)
    apply(world, HPA)

    calls = world.kube.calls
    deleted = calls.index("delete ScaledObject/consumer")
    assert deleted < calls.index("apply HorizontalPodAutoscaler/consumer")
    assert HPA_OF_KEDA not in world.kube.objects
    kept = world.folder.read_json("hpa.json")
    assert kept["name"] == "consumer"
    assert kept["conditions"] == [{"type": "AbleToScale", "status": "True"}]


def test_a_policy_may_name_its_hpa(world: World) -> None:
    """The task waits for that one; left over, it would scale beside another policy."""
    assert apply(world, NAMED)["hpa"] == "orders"
    del world.kube.objects["HorizontalPodAutoscaler", "orders"]["owner"]  # not yet collected

    with pytest.raises(StillWaiting, match="former ScaledObject/"):
        apply(world, HPA)


@pytest.mark.parametrize("theirs", [HPA, SCALED_OBJECT], ids=["other-kind", "same-kind"])
def test_an_object_of_somebody_else_is_neither_replaced_nor_deleted(
    world: World, theirs: dict[str, Any]
) -> None:
    """It has the name of all policies but no run's label: the task ends, and it stays as it was."""
    world.kube.apply(theirs | {"metadata": {"name": "consumer"}})
    before = list(world.kube.calls)

    with pytest.raises(NotReady, match=f"{theirs['kind']}/consumer exists"):
        apply(world)
    assert world.kube.calls == before


@pytest.mark.parametrize("is_up", [True, False])
def test_a_policy_that_nobody_takes_up_is_not_in_force(world: World, *, is_up: bool) -> None:
    """Equal bounds do not tell: KEDA has taken a policy up when its HPA names the run.

    An unreachable autoscaler does not either.
    """
    apply(world)
    world.kube.leaves_hpa, world.kube.is_autoscaler_up = is_up, is_up
    world.kube.objects["ScaledObject", "consumer"]["spec"]["cooldownPeriod"] = 5
    world.kube.objects[HPA_OF_KEDA]["metadata"]["annotations"] = {RUN_ID_ANNOTATION: "another-run"}

    with pytest.raises(StillWaiting, match="ScaledObject/consumer"):
        apply(world)


def test_a_policy_that_is_handed_over_has_no_hpa_to_wait_for(world: World) -> None:
    """The hand-rolled controller has it in memory, and says Ready in its own words."""
    result = apply(world, scaled({SCALED_BY: CONTROLLER, PAUSED: "true"}))

    assert result["kind"] == "ScaledObject"
    assert HPA_OF_KEDA not in world.kube.objects


def test_a_policy_on_the_lag_scaler_brings_it_along(world: World) -> None:
    """It is there before KEDA asks it, and goes with the run; its claim stays as it is.

    A claim may have been enlarged, and cannot be made smaller.
    """
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "state"}, "spec": {"size": 64}}
    (manifest_files.BASE / "lag-scaler" / "claim.yaml").write_text(yaml.safe_dump(claim))
    world.kube.create({**claim, "spec": {"size": 128}})
    apply(world, scaled(triggers=[ASKS_SCALER]))

    assert world.kube.calls.index(SCALER) < world.kube.calls.index(SCALED)
    for kind in ("Deployment", "Service"):
        labels = world.kube.objects[kind, "lagbench-lag-scaler"]["metadata"]["labels"]
        assert labels[RUN_ID_LABEL] == world.names.run_id
    assert world.kube.objects["PersistentVolumeClaim", "state"]["spec"] == {"size": 128}
    removed = set(remove_workloads(world.kube, RUN_ID_LABEL))
    assert removed >= {"Service/lagbench-lag-scaler", "Deployment/lagbench-lag-scaler"}


def embed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the operator find itself on the embedded bench, beside the committed Prometheus."""
    committed = PROJECT_ROOT / "k8s" / "base" / "prometheus"
    shutil.copytree(committed, manifest_files.BASE / "prometheus")
    access = hooks_kube.EmbeddedAccess("kubeconfig", {})
    monkeypatch.setattr(hooks_kube, "embedded_access", lambda *_: access)


def test_the_embedded_bench_has_prometheus_before_the_autoscaler_asks_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It scrapes the run's recorder where localkube has put it, and goes with the run.

    Without a recorder the task ends before anything is applied.
    """
    embed(monkeypatch)
    with pytest.raises(NotReady, match="recorder"):
        apply(world, scaled(triggers=[ASKS_PROMETHEUS]))
    assert ("ScaledObject", "consumer") not in world.kube.objects
    metadata = {
        "name": "recorder-x",
        "labels": {"app": "recorder", RUN_ID_LABEL: world.names.run_id},
        "annotations": {"lagbench.io/port-metrics": "31000"},
    }
    recorder = {"kind": "Pod", "metadata": metadata, "status": {"podIP": "127.0.0.1"}}
    world.kube.objects["Pod", "recorder-x"] = recorder
    apply(world)

    calls = world.kube.calls
    assert calls.index("apply Deployment/lagbench-prometheus") < calls.index(SCALED)
    deployment = world.kube.objects["Deployment", "lagbench-prometheus"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "SCRAPED_ADDRESS", "value": "127.0.0.1:31000"} in container["env"]
    del world.kube.objects["Pod", "recorder-x"]
    removed = remove_workloads(world.kube, RUN_ID_LABEL)
    assert {"Service/lagbench-prometheus", "Deployment/lagbench-prometheus"} <= set(removed)


def test_a_cluster_has_a_prometheus_of_its_own(world: World) -> None:
    """The run starts none there."""
    apply(world, scaled(triggers=[ASKS_PROMETHEUS]))
    assert ("Deployment", "lagbench-prometheus") not in world.kube.objects


@pytest.mark.parametrize(("is_embedded", "lead_seconds"), [(True, 30), (False, 60)])
def test_cron_windows_are_placed_in_the_stream_that_is_planned(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_embedded: bool, lead_seconds: int
) -> None:
    """The trigger opens 90 s after the start that the manifest has; a cluster has more lead."""
    if is_embedded:
        embed(monkeypatch)
    triggers = [*SCALED_OBJECT["spec"]["triggers"], CRON]
    earliest_ns = time.time_ns() + lead_seconds * 1_000_000_000
    apply(world, scaled({"lagbench.io/cron-windows": "90-150"}, triggers=triggers))
    planned = world.folder.read_json(world.folder.manifest)["stream_planned_at"]
    apply(world)

    assert 0 <= planned - earliest_ns < 90_000_000_000
    again = world.folder.read_json(world.folder.manifest)["stream_planned_at"]
    assert again - planned in (0, 60_000_000_000)  # the first start may have come too near
    opens = datetime.fromtimestamp(round(again / 1e9) + 90, tz=UTC)
    placed = world.kube.objects["ScaledObject", "consumer"]["spec"]["triggers"][-1]["metadata"]
    assert opens.second == 0
    assert placed["timezone"] == "UTC"
    assert placed["start"] == f"{opens.minute} {opens.hour} {opens.day} {opens.month} *"
