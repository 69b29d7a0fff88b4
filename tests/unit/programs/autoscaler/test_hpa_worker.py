"""An HPA's worker on an API in memory: its readings, its syncs, its own flags."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.autoscaler_world import HPA_KEY, KEY, World, scaled_object, world

from lagbench.adapters.kube.cluster_protocol import HPA
from lagbench.core.telemetry.records_of_programs import HpaSync, Scaled
from lagbench.programs.autoscaler.hpa_worker import HpaWorker


def test_lag_wakes_the_target_and_the_hpa_takes_over() -> None:
    """0 to 1 is KEDA's event, 1 to 3 the HPA's; both are in the telemetry."""
    here = world(scaled_object(), replicas=0)
    here.source.lag = 25
    here.worker.step()
    here.hpa_worker().step()

    assert here.cluster.scales[KEY] == 3
    moves = [
        (r.by, r.replicas_before, r.replicas_after)
        for r in here.records.sent
        if isinstance(r, Scaled)
    ]
    assert moves == [("keda", 0, 1), ("hpa", 1, 3)]
    assert "KEDAScaleTargetActivated" in here.reasons()
    sync = next(record for record in here.records.sent if isinstance(record, HpaSync))
    assert (sync.metrics, sync.proposal, sync.desired) == ({"s0-kafka-t": 25.0}, 3, 3)
    status = here.hpa()["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (1, 3)
    assert status["currentMetrics"][0]["external"]["current"] == {"averageValue": "25"}


def test_a_failing_source_changes_nothing_and_is_no_zero() -> None:
    """The HPA says FailedGetExternalMetric, keeps its replicas, and recovers with the source."""
    here = world(scaled_object(minReplicaCount=1), replicas=4)
    here.worker.step()
    hpa = here.hpa_worker()
    here.source.fails_reading = True
    hpa.step()
    failed = here.condition(HPA, HPA_KEY, "ScalingActive")["reason"], here.cluster.scales[KEY]
    here.source.fails_reading, here.source.lag = False, 60
    here.time.seconds += 15
    hpa.step()

    assert failed == ("FailedGetExternalMetric", 4)
    assert here.cluster.scales[KEY] == 6
    reasons = [reason for reason, _ in here.cluster.events("keda-hpa-w")]
    assert {"FailedGetExternalMetric", "FailedComputeMetricsReplicas"} <= set(reasons)


def test_the_first_sync_comes_one_period_after_the_hpa_is_seen() -> None:
    """As in Kubernetes, so that each HPA has a phase of its own."""
    here = world(scaled_object())
    here.worker.step()

    assert HpaWorker(here.hpa(), here.context).step() == 15


@pytest.mark.parametrize(
    ("annotations", "sync_seconds", "replicas"),
    [
        ({}, 15, 2),
        ({"lagbench.io/hpa-sync-seconds": "5", "lagbench.io/hpa-tolerance": "0"}, 5, 3),
        ({"lagbench.io/hpa-sync-seconds": "none", "lagbench.io/hpa-tolerance": "0"}, 15, 2),
    ],
)
def test_an_object_has_its_own_sync_and_tolerance(
    annotations: dict[str, str], sync_seconds: float, replicas: int
) -> None:
    """2.1 thresholds are within 10 % of two; wrong flags are those of Kubernetes."""
    made = scaled_object(minReplicaCount=2)
    made["metadata"]["annotations"] = annotations
    here = world(made, replicas=2)
    here.source.lag = 21
    here.worker.step()

    assert here.hpa_worker().step() == sync_seconds
    assert here.cluster.scales[KEY] == replicas


def cpu_world(container: str, *, pods: int = 2) -> World:
    """Return a world that scales on CPU: main uses 90m of 100m, its proxy 10m of 400m."""
    metadata = {"value": "50", **({"containerName": container} if container else {})}
    trigger = {"type": "cpu", "metricType": "Utilization", "metadata": metadata}
    made = world(scaled_object(triggers=[trigger], minReplicaCount=1), replicas=2)
    made.worker.step()
    requests = {"main": "100m", "proxy": "400m"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T07:00:05Z"}
    for number in range(pods):
        identity = {"name": f"p{number}", "namespace": "n"}
        containers = [
            {"name": name, "resources": {"requests": {"cpu": asked}}}
            for name, asked in requests.items()
        ]
        used: list[dict[str, Any]] = [
            {"name": "main", "usage": {"cpu": "90m"}},
            {"name": "proxy", "usage": {"cpu": "10m"}},
        ]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": identity,
            "spec": {"containers": containers},
            "status": {
                "phase": "Running",
                "startTime": "2027-01-15T07:00:00Z",
                "conditions": [ready],
            },
        }
        made.cluster.put(pod)
        made.cluster.put(
            {
                "apiVersion": "metrics.k8s.io/v1beta1",
                "kind": "PodMetrics",
                "metadata": identity,
                "timestamp": "2027-01-15T08:00:00Z",  # at which the world's clock stands still
                "window": "15s",
                "containers": used,
            }
        )
    return made


@pytest.mark.parametrize(
    ("container", "replicas", "percent"), [("", 1, 20), ("main", 4, 90), ("proxy", 1, 2)]
)
def test_a_cpu_trigger_reads_the_container_that_it_names(
    container: str, replicas: int, percent: int
) -> None:
    """Of two pods at a target of 50 %: 20 % of the whole, 90 % of main, 2 % of the proxy."""
    here = cpu_world(container)
    here.hpa_worker().step()

    sync = next(record for record in here.records.sent if isinstance(record, HpaSync))
    (shown,) = here.hpa()["status"]["currentMetrics"]
    kind = "ContainerResource" if container else "Resource"
    assert (sync.proposal, shown["type"]) == (replicas, kind)
    current = shown[kind[0].lower() + kind[1:]]["current"]
    assert current["averageUtilization"] == percent


@pytest.mark.parametrize(
    ("container", "pods", "reason"),
    [("absent", 2, "FailedGetContainerResourceMetric"), ("", 0, "FailedGetResourceMetric")],
)
def test_usage_that_is_not_there_fails_the_metric(container: str, pods: int, reason: str) -> None:
    """No pod has the container, or the metrics API has no sample yet."""
    here = cpu_world(container, pods=pods)
    here.hpa_worker().step()

    assert here.condition(HPA, HPA_KEY, "ScalingActive")["reason"] == reason
    assert here.cluster.scales[KEY] == 2
