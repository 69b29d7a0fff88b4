"""What the autoscaler said of itself."""

from __future__ import annotations

from lagbench.core.telemetry.records import HpaSample, KubeEvent
from lagbench.report.series import said

SECOND = 1_000_000_000


def sample(second: int, *conditions: str) -> HpaSample:
    """Return the HPA's status."""
    return HpaSample(
        at=second * SECOND,
        source="recorder",
        name="h",
        desired=2,
        current=2,
        metrics=[],
        conditions=list(conditions),
    )


def event(second: int, sort: str) -> KubeEvent:
    """Return an event on the HPA."""
    return KubeEvent(
        at=second * SECOND,
        source="recorder",
        object_kind="HorizontalPodAutoscaler",
        object_name="h",
        type=sort,
        reason="FailedGetExternalMetric",
        message="no answer",
        count=3,
        first_at=None,
        last_at=None,
    )


def test_events_and_changed_conditions_stand_in_order_of_time() -> None:
    """A condition is told once, until it says something else."""
    records = [
        sample(1, "AbleToScale=True ReadyForNewScale", "ScalingActive=True ValidMetricFound"),
        sample(2, "AbleToScale=True ReadyForNewScale", "ScalingActive=True ValidMetricFound"),
        event(3, "Warning"),
        sample(4, "AbleToScale=True ReadyForNewScale", "ScalingActive=False FailedGetMetric"),
    ]

    rows = [*said(records, SECOND)]

    assert [(row.seconds, row.message, row.is_warning) for row in rows] == [
        (0, "AbleToScale=True ReadyForNewScale, ScalingActive=True ValidMetricFound", False),
        (2, "no answer", True),
        (3, "ScalingActive=False FailedGetMetric", False),
    ]
    assert rows[1].count == 3
