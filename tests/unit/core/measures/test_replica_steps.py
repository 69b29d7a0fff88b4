"""Replica changes on a cluster, where no autoscaler reports."""

from __future__ import annotations

import pytest
from tests.fakes.replica_records import SECOND, sample, scaled, watched_step

from lagbench.core.measures.replica_changes import replica_changes
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_recorder import HpaSample, KubeEvent


def rescale(second: float, size: int, hpa: str = "h") -> KubeEvent:
    """Return the HPA's event."""
    return KubeEvent(
        at=round(second * SECOND),
        source="recorder",
        object_kind="HorizontalPodAutoscaler",
        object_name=hpa,
        type="Normal",
        reason="SuccessfulRescale",
        message=f"New size: {size}; reason: external metric above target",
        count=1,
        first_at=None,
        last_at=None,
    )


def changes(*records: TelemetryRecord) -> tuple[ReplicaChange, ...]:
    """Return the changes that ``records`` show."""
    return replica_changes(records, from_at=0, until_at=10**18, last_spike_ended_at=None)


@pytest.mark.parametrize(
    ("manager", "by"),
    [
        ("kube-controller-manager", "hpa"),
        ("keda", "keda"),
        ("keda-operator", "keda"),
        ("kubectl", "user"),
        ("", "unknown"),
    ],
)
def test_the_watch_says_when_and_the_writers_name_who(manager: str, by: str) -> None:
    """Known to the distance from the sample that still showed the old number."""
    (change,) = changes(sample(1, 2), watched_step(1.4, 2, 6, manager), sample(2, 6))

    assert (change.at, change.by) == (round(1.4 * SECOND), by)
    assert change.precision_seconds == pytest.approx(0.4)


def test_the_hpas_event_gives_the_reason() -> None:
    """And says that it was the HPA, where the writer is not told; one of another size does not."""
    (change,) = changes(
        sample(1, 2), watched_step(1.4, 2, 6), rescale(1.2, 4), rescale(1.5, 6), sample(2, 6)
    )

    assert (change.by, change.reason) == ("hpa", rescale(1.5, 6).message)


def test_the_event_of_another_workloads_hpa_is_no_reason() -> None:
    """Of the same size in the same second; the samples name the workload's own HPA."""
    own = HpaSample(
        at=SECOND, source="recorder", name="h", desired=2, current=2, metrics=[], conditions=[]
    )
    step = watched_step(1.4, 2, 6, "kubectl")
    (change,) = changes(own, sample(1, 2), step, rescale(1.5, 6, "elsewhere"), sample(2, 6))

    assert (change.by, change.reason) == ("user", "written by kubectl")


@pytest.mark.parametrize(
    ("records", "found"),
    [
        pytest.param(
            [sample(1, 0), watched_step(1.2, 0, 1, "keda"), watched_step(1.7, 1, 4), sample(2, 4)],
            [(1.2, 1), (1.7, 4)],
            id="two steps within a second: KEDA activates, the HPA continues",
        ),
        pytest.param(
            [sample(1, 2), sample(2, 6), watched_step(2.01, 2, 6, "kubectl"), sample(3, 6)],
            [(2.01, 6)],
            id="a sample may be read before the watch reports",
        ),
        pytest.param(
            [sample(1, 2), scaled(1.3, 2, 6), watched_step(1.4, 2, 6), sample(2, 6)],
            [(1.3, 6)],
            id="the autoscaler stamps its own step exactly",
        ),
        pytest.param(
            [
                *(sample(1, 2), scaled(1.2, 2, 6), watched_step(1.5, 2, 6), scaled(1.6, 6, 2)),
                *(watched_step(1.9, 6, 2), sample(2, 2), sample(3, 2)),
            ],
            [(1.2, 6), (1.6, 2)],
            id="what both tell is one step",
        ),
        pytest.param(
            [
                *(sample(1, 2), sample(2, 2), sample(3, 6), sample(4, 2)),
                *(scaled(1.97, 2, 6), scaled(3.2, 6, 2)),
            ],
            [(1.97, 6), (3.2, 2)],
            id="a step near a sample counts once",
        ),
        pytest.param(
            [sample(1, 2), sample(9, 2), watched_step(3, 2, 6), watched_step(6, 6, 2)],
            [(3, 6), (6, 2)],
            id="the watch shows what came back between two samples",
        ),
        pytest.param(
            [sample(1, 2), scaled(100, 2, 6), sample(301, 2)],
            [(100, 6), (301, 2)],
            id="the way back was told by nobody: the next sample is its bound",
        ),
        pytest.param(
            [sample(1, 2), sample(2, 2), scaled(100, 2, 6), scaled(200, 6, 2)],
            [(100, 6), (200, 2)],
            id="steps after the last sample count",
        ),
    ],
)
def test_each_step_counts_once(
    records: list[TelemetryRecord], found: list[tuple[float, int]]
) -> None:
    """Whoever reported it: seconds, and the replicas after it."""
    assert [(c.at, c.replicas_after) for c in changes(*records)] == [
        (round(second * SECOND), replicas) for second, replicas in found
    ]
