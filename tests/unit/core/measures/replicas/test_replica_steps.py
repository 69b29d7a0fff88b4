"""Replica changes on a cluster, where no autoscaler reports."""

from __future__ import annotations

import pytest
from tests.fakes.replica_records import SECOND, sample, scaled, watched_step

from lagbench.core.measures.replicas.flapping import replica_changes
from lagbench.core.measures.replicas.steps import ReplicaChange
from lagbench.core.telemetry.records import HpaSample, KubeEvent, TelemetryRecord


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


def test_two_steps_within_a_second_are_both_kept() -> None:
    """KEDA activates 0 to 1, the HPA continues to 4."""
    found = changes(
        sample(1, 0),
        watched_step(1.2, 0, 1, "keda"),
        watched_step(1.7, 1, 4, "kube-controller-manager"),
        sample(2, 4),
    )

    assert [(c.replicas_after, c.by) for c in found] == [(1, "keda"), (4, "hpa")]


def test_a_sample_may_be_read_before_the_watch_reports() -> None:
    """The sample at 2 s shows 6 already, the watch at 2.01 s: one change, not two."""
    found = changes(sample(1, 2), sample(2, 6), watched_step(2.01, 2, 6, "kubectl"), sample(3, 6))

    assert [(c.at, c.replicas_after) for c in found] == [(round(2.01 * SECOND), 6)]


def test_what_the_autoscaler_reports_itself_comes_first() -> None:
    """On the embedded bench it stamps its own step exactly."""
    reported = scaled(1.3, 2, 6)

    (change,) = changes(sample(1, 2), reported, watched_step(1.4, 2, 6), sample(2, 6))

    assert (change.at, change.precision_seconds, change.reason) == (reported.at, 0, "because")


def test_what_both_tell_is_one_step() -> None:
    """Up and back within one second, told by the autoscaler and 300 ms later by the watch."""
    found = changes(
        sample(1, 2),
        scaled(1.2, 2, 6),
        watched_step(1.5, 2, 6),
        scaled(1.6, 6, 2),
        watched_step(1.9, 6, 2),
        sample(2, 2),
        sample(3, 2),
    )

    assert [(c.at, c.replicas_after) for c in found] == [
        (round(1.2 * SECOND), 6),
        (round(1.6 * SECOND), 2),
    ]


def test_a_step_near_a_sample_counts_once() -> None:
    """Stamped at 1.97 s, done after the sample at 2 s, which still shows the old number."""
    found = changes(
        sample(1, 2),
        sample(2, 2),
        sample(3, 6),
        sample(4, 2),
        scaled(1.97, 2, 6),
        scaled(3.2, 6, 2),
    )

    assert [c.replicas_after for c in found] == [6, 2]


def test_the_watch_shows_what_went_and_came_back_between_two_samples() -> None:
    """Both samples say 2; the watch saw 6 in between."""
    found = changes(
        sample(1, 2), sample(9, 2), watched_step(3, 2, 6, "keda"), watched_step(6, 6, 2, "keda")
    )

    assert [(c.replicas_after, c.is_reversal) for c in found] == [(6, False), (2, True)]


def test_steps_in_a_gap_between_samples_count_as_far_as_they_go() -> None:
    """The way back from 6 was told by nobody: the sample after the period is its bound."""
    found = changes(sample(1, 2), scaled(100, 2, 6), sample(301, 2))

    assert [(c.at, c.replicas_after, c.by) for c in found] == [
        (100 * SECOND, 6, "hpa"),
        (301 * SECOND, 2, "unknown"),
    ]


def test_steps_after_the_last_sample_count() -> None:
    """The recorder fell silent at 2 s."""
    found = changes(sample(1, 2), sample(2, 2), scaled(100, 2, 6), scaled(200, 6, 2))

    assert [c.replicas_after for c in found] == [6, 2]
