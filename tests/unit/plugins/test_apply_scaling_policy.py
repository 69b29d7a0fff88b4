"""A policy is put into force."""

from __future__ import annotations

import json
import shutil
import time
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from tests.unit.plugins.conftest import HPA, SCALED_OBJECT, World

from lagbench.adapters.kube import manifest_files
from lagbench.adapters.kube.workloads import remove_workloads
from lagbench.core.keda.loop.handover import CONTROLLER, SCALED_BY
from lagbench.core.keda.object import PAUSED
from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION, RUN_ID_LABEL
from lagbench.errors import NotReady, StillWaiting
from lagbench.project import PROJECT_ROOT
from lagbench_airflow.hooks import kube as hooks_kube
from lagbench_airflow.operators.apply_scaling_policy import ApplyScalingPolicyOperator


def operator(world: World) -> ApplyScalingPolicyOperator:
    """Return the operator."""
    return ApplyScalingPolicyOperator(
        task_id="apply_scaling_policy", run_folder=str(world.folder.path)
    )


def test_the_run_s_policy_is_in_force(world: World) -> None:
    """The stored object names the run's topic, and the HPA that KEDA made is reported."""
    result = operator(world).execute(world.context)

    stored = world.kube.objects["ScaledObject", "consumer"]
    assert stored["spec"]["triggers"][0]["metadata"]["topic"] == world.names.events_topic
    assert result["hpa"] == "keda-hpa-consumer"
    assert world.names.events_topic in world.folder.policy.read_text()


def test_a_swap_to_an_hpa_deletes_the_scaled_object_first(world: World) -> None:
    """Two autoscalers never hold the same Deployment."""
    operator(world).execute(world.context)
    world.with_policy(HPA)

    operator(world).execute(world.context)

    calls = world.kube.calls
    delete, apply = "delete ScaledObject/consumer", "apply HorizontalPodAutoscaler/consumer"
    assert calls.index(delete) < calls.index(apply)
    assert ("HorizontalPodAutoscaler", "keda-hpa-consumer") not in world.kube.objects


def _with_named_hpa() -> dict[str, Any]:
    """Return a policy that names its HPA itself."""
    advanced = {"horizontalPodAutoscalerConfig": {"name": "orders"}}
    return SCALED_OBJECT | {"spec": {**SCALED_OBJECT["spec"], "advanced": advanced}}


def test_a_policy_may_name_its_hpa(world: World) -> None:
    """KEDA creates the HPA under the name in the policy, and the task waits for that one."""
    world.with_policy(_with_named_hpa())

    assert operator(world).execute(world.context)["hpa"] == "orders"


def test_a_swap_waits_for_the_hpa_that_the_former_policy_named(world: World) -> None:
    """An HPA that is left would scale the consumers beside the new policy."""
    world.with_policy(_with_named_hpa())
    operator(world).execute(world.context)
    del world.kube.objects["HorizontalPodAutoscaler", "orders"]["owner"]  # not yet collected
    world.with_policy(HPA)

    with pytest.raises(StillWaiting, match="former ScaledObject/"):
        operator(world).execute(world.context)


@pytest.mark.parametrize("theirs", [HPA, SCALED_OBJECT], ids=["other-kind", "same-kind"])
def test_an_object_of_somebody_else_is_neither_replaced_nor_deleted(
    world: World, theirs: dict[str, Any]
) -> None:
    """It has the name of all policies but no run's label: the task ends, and it stays as it was."""
    world.kube.apply(theirs | {"metadata": {"name": "consumer"}})
    before = list(world.kube.calls)

    with pytest.raises(NotReady, match=f"{theirs['kind']}/consumer exists"):
        operator(world).execute(world.context)

    assert world.kube.calls == before


def test_the_diff_shows_what_changed(world: World) -> None:
    """The difference between the old and the new policy is stored beside the run."""
    operator(world).execute(world.context)
    changed = dict(world.kube.objects["ScaledObject", "consumer"])
    changed["spec"] = changed["spec"] | {"maxReplicaCount": 8}
    world.with_policy({key: changed[key] for key in ("apiVersion", "kind", "metadata", "spec")})

    result = operator(world).execute(world.context)

    assert "-  maxReplicaCount: 4" in result["diff"]
    assert "+  maxReplicaCount: 8" in (world.folder.path / "policy.diff").read_text()


def test_the_hpa_is_kept_as_it_was_taken_up(world: World) -> None:
    """Its bounds and conditions are in the run folder."""
    operator(world).execute(world.context)
    of_keda = json.loads((world.folder.path / "hpa.json").read_text())
    world.with_policy(HPA)
    operator(world).execute(world.context)
    own = json.loads((world.folder.path / "hpa.json").read_text())

    assert (of_keda["name"], own["name"]) == ("keda-hpa-consumer", "consumer")
    assert of_keda["spec"] == {"minReplicas": 2, "maxReplicas": 4}
    assert own["conditions"] == [{"type": "AbleToScale", "status": "True"}]


def test_the_hpa_of_another_run_is_not_this_policy_s(world: World) -> None:
    """Equal bounds do not tell: KEDA has taken a policy up when its HPA names the run."""
    operator(world).execute(world.context)
    of_keda = world.kube.objects["HorizontalPodAutoscaler", "keda-hpa-consumer"]
    world.kube.leaves_hpa = True
    world.kube.objects["ScaledObject", "consumer"]["spec"]["cooldownPeriod"] = 5
    of_keda["metadata"]["annotations"] = {RUN_ID_ANNOTATION: "another-run"}

    with pytest.raises(StillWaiting, match="ScaledObject/consumer"):
        operator(world).execute(world.context)


def test_an_unreachable_autoscaler_is_reported(world: World) -> None:
    """A policy that nobody takes up does not count as in force."""
    world.kube.is_autoscaler_up = False

    with pytest.raises(StillWaiting, match="ScaledObject/consumer"):
        operator(world).execute(world.context)


def test_a_retry_is_safe(world: World) -> None:
    """Applying the policy again changes nothing."""
    operator(world).execute(world.context)

    assert operator(world).execute(world.context)["diff"] == ""


def test_the_lag_scaler_s_claim_of_an_earlier_run_stays_as_it_is(world: World) -> None:
    """It may have been enlarged, and a claim cannot be made smaller."""
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "state"}, "spec": {"size": 64}}
    path = manifest_files.BASE / "lag-scaler" / "claim.yaml"
    path.write_text(yaml.safe_dump(claim))
    world.kube.create({**claim, "spec": {"size": 128}})
    address = "lagbench-lag-scaler.lagbench.svc.cluster.local:6000"
    asking = {"type": "external", "metadata": {"scalerAddress": address}}
    world.with_policy(SCALED_OBJECT | {"spec": SCALED_OBJECT["spec"] | {"triggers": [asking]}})

    operator(world).execute(world.context)

    kept = world.kube.objects["PersistentVolumeClaim", "state"]
    assert kept["spec"] == {"size": 128}


def test_a_policy_on_the_lag_scaler_brings_it_along(world: World) -> None:
    """The scaler is there before KEDA asks it, carries the run's label, and goes with the run."""
    address = "lagbench-lag-scaler.lagbench.svc.cluster.local:6000"
    asking = {"type": "external", "metadata": {"scalerAddress": address, "consumerGroup": "g"}}
    world.with_policy(SCALED_OBJECT | {"spec": SCALED_OBJECT["spec"] | {"triggers": [asking]}})

    operator(world).execute(world.context)

    calls = world.kube.calls
    scaler = "apply Deployment/lagbench-lag-scaler"
    assert calls.index(scaler) < calls.index("apply ScaledObject/consumer")
    for kind in ("Deployment", "Service"):
        labels = world.kube.objects[kind, "lagbench-lag-scaler"]["metadata"]["labels"]
        assert labels[RUN_ID_LABEL] == world.names.run_id
    removed = remove_workloads(world.kube, RUN_ID_LABEL)
    assert "Service/lagbench-lag-scaler" in removed
    assert "Deployment/lagbench-lag-scaler" in removed


def test_other_policies_start_no_scaler(world: World) -> None:
    """A kafka trigger needs no server beside KEDA."""
    operator(world).execute(world.context)

    assert ("Deployment", "lagbench-lag-scaler") not in world.kube.objects


ASKS_PROMETHEUS = {
    "type": "prometheus",
    "metadata": {
        "serverAddress": "http://prometheus.monitoring:9090",
        "query": 'sum(kafka_consumergroup_lag{consumergroup="enrich"})',
        "threshold": "100",
    },
}


def with_prometheus(world: World) -> None:
    """Give the run a policy that asks Prometheus."""
    spec = {**SCALED_OBJECT["spec"], "triggers": [ASKS_PROMETHEUS]}
    world.with_policy({**SCALED_OBJECT, "spec": spec})


def embed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the operator find itself on the embedded bench, beside the committed Prometheus."""
    committed = PROJECT_ROOT / "k8s" / "base" / "prometheus"
    shutil.copytree(committed, manifest_files.BASE / "prometheus")
    access = hooks_kube.EmbeddedAccess("kubeconfig", {})
    monkeypatch.setattr(hooks_kube, "embedded_access", lambda *_: access)


def test_the_embedded_bench_has_prometheus_before_the_autoscaler_asks_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It scrapes the run's recorder where localkube has put it, and goes with the run."""
    embed(monkeypatch)
    with_prometheus(world)
    metadata = {
        "name": "recorder-x",
        "labels": {"app": "recorder", RUN_ID_LABEL: world.names.run_id},
        "annotations": {"lagbench.io/port-metrics": "31000"},
    }
    recorder = {"kind": "Pod", "metadata": metadata, "status": {"podIP": "127.0.0.1"}}
    world.kube.objects["Pod", "recorder-x"] = recorder

    operator(world).execute(world.context)

    calls = world.kube.calls
    started = calls.index("apply Deployment/lagbench-prometheus")
    assert started < calls.index("apply ScaledObject/consumer")
    deployment = world.kube.objects["Deployment", "lagbench-prometheus"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "SCRAPED_ADDRESS", "value": "127.0.0.1:31000"} in container["env"]
    del world.kube.objects["Pod", "recorder-x"]
    removed = remove_workloads(world.kube, RUN_ID_LABEL)
    assert {"Service/lagbench-prometheus", "Deployment/lagbench-prometheus"} <= set(removed)


def test_without_a_recorder_prometheus_has_nothing_to_scrape(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task ends before anything is applied."""
    embed(monkeypatch)
    with_prometheus(world)

    with pytest.raises(NotReady, match="recorder"):
        operator(world).execute(world.context)

    assert ("ScaledObject", "consumer") not in world.kube.objects


def test_a_cluster_has_a_prometheus_of_its_own(world: World) -> None:
    """The run starts none there."""
    with_prometheus(world)

    operator(world).execute(world.context)

    assert ("Deployment", "lagbench-prometheus") not in world.kube.objects


def test_a_policy_that_is_handed_over_has_no_hpa_to_wait_for(world: World) -> None:
    """The hand-rolled controller has it in memory, and says Ready in its own words."""
    marks = {SCALED_BY: CONTROLLER, PAUSED: "true"}
    world.with_policy({**SCALED_OBJECT, "metadata": {"name": "x", "annotations": marks}})

    result = operator(world).execute(world.context)

    assert result["kind"] == "ScaledObject"
    assert ("HorizontalPodAutoscaler", "keda-hpa-consumer") not in world.kube.objects


@pytest.mark.parametrize(("is_embedded", "lead_seconds"), [(True, 30), (False, 60)])
def test_cron_windows_are_placed_in_the_stream_that_is_planned(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_embedded: bool, lead_seconds: int
) -> None:
    """The trigger opens 90 s after the start that the manifest has; a cluster has more lead."""
    if is_embedded:
        embed(monkeypatch)
    hours = {"timezone": "Europe/Berlin", "start": "0 8 * * 1-5", "end": "0 18 * * 1-5"}
    cron = {"type": "cron", "metadata": {**hours, "desiredReplicas": "3"}}
    spec = SCALED_OBJECT["spec"] | {"triggers": [*SCALED_OBJECT["spec"]["triggers"], cron]}
    annotations = {"lagbench.io/cron-windows": "90-150"}
    metadata = SCALED_OBJECT["metadata"] | {"annotations": annotations}
    world.with_policy(SCALED_OBJECT | {"metadata": metadata, "spec": spec})
    earliest_ns = time.time_ns() + lead_seconds * 1_000_000_000

    operator(world).execute(world.context)
    planned = world.folder.read_json(world.folder.manifest)["stream_planned_at"]
    operator(world).execute(world.context)

    assert 0 <= planned - earliest_ns < 90_000_000_000
    again = world.folder.read_json(world.folder.manifest)["stream_planned_at"]
    assert again - planned in (0, 60_000_000_000)  # the first start may have come too near
    opens = datetime.fromtimestamp(round(again / 1e9) + 90, tz=UTC)
    placed = world.kube.objects["ScaledObject", "consumer"]["spec"]["triggers"][-1]["metadata"]
    assert opens.second == 0
    assert placed["timezone"] == "UTC"
    assert placed["start"] == f"{opens.minute} {opens.hour} {opens.day} {opens.month} *"


def test_without_cron_windows_the_stream_starts_when_it_is_ready(world: World) -> None:
    """No start is planned, so the producer waits for none."""
    operator(world).execute(world.context)

    assert "stream_planned_at" not in world.folder.read_json(world.folder.manifest)
