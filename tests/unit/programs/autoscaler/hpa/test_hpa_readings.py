"""What a sync reads of the pods' CPU: the whole pod's, or one container's."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.autoscaler_world import HPA_KEY, KEY, World, scaled_object, world

from lagbench.adapters.kube.cluster_protocol import HPA
from lagbench.core.hpa.metrics import MetricFailure, Proposal
from lagbench.core.hpa.spec import parse_hpa
from lagbench.programs.autoscaler.hpa.hpa_readings import Reading, read_metrics

STAMP = "2027-01-15T08:00:00Z"  # the instant at which the world's clock stands still


def cpu_world(container: str, *, pods: int = 2) -> World:
    """Return a world that scales on CPU: main uses 90m of 100m, its proxy 10m of 400m."""
    metadata = {"value": "50", **({"containerName": container} if container else {})}
    trigger = {"type": "cpu", "metricType": "Utilization", "metadata": metadata}
    made = world(scaled_object(triggers=[trigger], minReplicaCount=1), replicas=pods)
    made.worker.step()
    for number in range(pods):
        identity = {"name": f"p{number}", "namespace": "n"}
        made.cluster.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": identity,
                "spec": {
                    "containers": [
                        {"name": "main", "resources": {"requests": {"cpu": "100m"}}},
                        {"name": "proxy", "resources": {"requests": {"cpu": "400m"}}},
                    ]
                },
                "status": {
                    "phase": "Running",
                    "startTime": "2027-01-15T07:00:00Z",
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "lastTransitionTime": "2027-01-15T07:00:05Z",
                        }
                    ],
                },
            }
        )
        made.cluster.put(
            {
                "apiVersion": "metrics.k8s.io/v1beta1",
                "kind": "PodMetrics",
                "metadata": identity,
                "timestamp": STAMP,
                "window": "15s",
                "containers": [
                    {"name": "main", "usage": {"cpu": "90m"}},
                    {"name": "proxy", "usage": {"cpu": "10m"}},
                ],
            }
        )
    return made


def read(made: World) -> Reading:
    """Read the one metric of the HPA that KEDA's side has made."""
    spec = parse_hpa(made.cluster.get(HPA, HPA_KEY), where="test")
    scale = made.cluster.get_scale(spec.target, "n")
    (reading,) = read_metrics(made.context, spec, KEY[0], scale)
    return reading


@pytest.mark.parametrize(
    ("container", "replicas", "percent"),
    [("", 1, 20), ("main", 4, 90), ("proxy", 1, 2)],
)
def test_a_cpu_trigger_reads_the_container_that_it_names(
    container: str, replicas: int, percent: int
) -> None:
    """Of two pods at a target of 50 %: 20 % of the whole, 90 % of main, 2 % of the proxy."""
    reading = read(cpu_world(container))

    result: Any = reading.outcome.result
    assert isinstance(result, Proposal)
    assert (result.replicas, result.usage_percent) == (replicas, percent)
    kind = "ContainerResource" if container else "Resource"
    assert reading.status is not None
    assert reading.status["type"] == kind


def test_a_container_that_no_pod_has_fails_the_metric() -> None:
    """The metric fails under the reason of its kind."""
    result: Any = read(cpu_world("absent")).outcome.result

    assert isinstance(result, MetricFailure)
    assert result.reason == "FailedGetContainerResourceMetric"


def test_no_samples_at_all_fail_the_metric() -> None:
    """Before the first scrape the metrics API answers with an empty list."""
    result: Any = read(cpu_world("", pods=0)).outcome.result

    assert isinstance(result, MetricFailure)
    assert result.reason == "FailedGetResourceMetric"
