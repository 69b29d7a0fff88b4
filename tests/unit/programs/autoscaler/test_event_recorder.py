"""The events of the autoscaler, on a server that drops them after an hour."""

from __future__ import annotations

from tests.fakes.cluster import FakeCluster

from lagbench.adapters.kube.cluster_protocol import EVENT
from lagbench.programs.autoscaler.event_recorder import EventRecorder

ABOUT = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "hpa", "namespace": "n", "uid": "1"},
}


def test_a_repetition_of_a_dropped_event_is_a_first_one() -> None:
    """The same text raises the count; when the server has dropped the event it is written again."""
    cluster = FakeCluster()
    recorder = EventRecorder(cluster, "hpa", lambda: 0)
    recorder.record(ABOUT, "Warning", "FailedGetMetric", "text")
    recorder.record(ABOUT, "Warning", "FailedGetMetric", "text")
    ((place, event),) = cluster.objects.items()
    assert event["count"] == 2

    cluster.delete(EVENT, place[1])
    recorder.record(ABOUT, "Warning", "FailedGetMetric", "text")
    recorder.record(ABOUT, "Warning", "FailedGetMetric", "text")

    (event,) = cluster.objects.values()
    assert event["count"] == 2
