"""The cause of a step: from the autoscaler's own sync, else from the status of a foreign HPA."""

from typing import Any

import pytest

from lagbench.core.hpa.hpa_object import HpaSpec, ScaleTarget, parse_behavior
from lagbench.core.policy.step_cause import bounded_cause, step_cause
from lagbench.core.telemetry.records_of_programs import HpaSync
from lagbench.core.telemetry.records_of_recorder import HpaSample

_LAG, _CPU = "s0-kafka-orders", "cpu"
_RATE = {"type": "Pods", "value": 4, "periodSeconds": 15}
_BEHAVIOR = {
    "scaleUp": {"policies": [_RATE]},
    "scaleDown": {
        "stabilizationWindowSeconds": 60,
        "selectPolicy": "Min",
        "policies": [_RATE, {"type": "Percent", "value": 50, "periodSeconds": 30}],
    },
}


def _hpa(behavior: dict[str, Any] | None) -> HpaSpec:
    return HpaSpec(
        target=ScaleTarget(api_version="apps/v1", kind="Deployment", name="consumer"),
        max_replicas=20,
        metrics=(),
        behavior=parse_behavior(behavior, where="hpa", field="spec.behavior"),
    )


def _sync(
    before: int,
    proposal: int,
    after: int,
    able: str = "ReadyForNewScale",
    limited: str = "False:DesiredWithinRange",
) -> HpaSync:
    return HpaSync(
        at=0,
        source="autoscaler",
        hpa="ns/hpa",
        spec_replicas=before,
        status_replicas=before,
        metrics={_LAG: 25000.0, _CPU: 20.0},
        proposal=proposal,
        desired=after,
        able_to_scale=f"True:{able}",
        scaling_limited=limited,
        scaling_active="True:ValidMetricFound",
    )


@pytest.mark.parametrize(
    ("sync", "behavior", "asked", "limit"),
    [
        (_sync(4, 8, 8), None, "8 pods", ""),
        (
            _sync(4, 12, 8, limited="True:ScaleUpLimit"),
            _BEHAVIOR,
            "12 pods",
            "limited to 8 by 4 pods per 15 s",
        ),
        (
            _sync(4, 12, 8, limited="True:ScaleUpLimit"),
            None,
            "12 pods",
            "limited to 8 by doubling at most (no behavior)",
        ),
        (
            _sync(4, 2, 8, limited="True:ScaleUpLimit"),
            _BEHAVIOR,
            "2 pods",
            "an earlier, higher request is still held, and limited to 8 by 4 pods per 15 s",
        ),
        (
            _sync(12, 1, 8, limited="True:ScaleDownLimit"),
            _BEHAVIOR,
            "1 pod",
            "limited to 8 by the lower of 4 pods per 15 s and 50 % per 30 s",
        ),
        (
            _sync(12, 2, 8, able="ScaleDownStabilized"),
            _BEHAVIOR,
            "2 pods",
            "held at 8 by the stabilization window of 60 s",
        ),
        (
            _sync(4, 1_200, 20, limited="True:TooManyReplicas"),
            _BEHAVIOR,
            "1,200 pods",
            "limited to 20 by the policy's maximum",
        ),
    ],
)
def test_a_sync_gives_wish_and_limit(
    sync: HpaSync, behavior: dict[str, Any] | None, asked: str, limit: str
) -> None:
    """A sync gives wish and limit."""
    reason = f"external metric {_LAG}(&LabelSelector{{a}}) above target"
    step = {"at": 9, "before": sync.spec_replicas, "after": sync.desired, "reason": reason}
    found = step_cause([_sync(1, 2, 2), sync], _hpa(behavior), **step)
    assert found.partition("; ") == (
        f"lag metric 25,000 requests {asked}",
        "; " if limit else "",
        limit,
    )


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("All metrics below target", "lag metric 25,000, cpu metric 20 requests 8 pods"),
        ("cpu resource utilization above target", "cpu metric 20 requests 8 pods"),
    ],
)
def test_the_metric_that_the_reason_names_is_shown_else_all(reason: str, text: str) -> None:
    """The metric that the reason names is shown else all."""
    assert step_cause([_sync(4, 8, 8)], None, at=9, before=4, after=8, reason=reason) == text


def test_the_status_of_a_foreign_hpa_has_no_proposal() -> None:
    """A status shows the reading and the limit."""
    sample = HpaSample(
        at=5,
        source="recorder",
        name="hpa",
        desired=8,
        current=4,
        metrics=[],
        conditions=["AbleToScale=True SucceededRescale", "ScalingLimited=True ScaleUpLimit"],
        totals={_LAG: 25000.0},
    )
    reason = f"New size: 8; reason: external metric {_LAG} above target"
    found = step_cause([sample], _hpa(_BEHAVIOR), at=0, before=4, after=8, reason=reason)
    assert found == "lag metric 25,000 above target; limited to 8 by 4 pods per 15 s"


@pytest.mark.parametrize("reason", ["", "written by kubectl", "activate from s0-kafka-orders"])
def test_a_step_without_a_sync_has_the_reason_of_its_writer(reason: str) -> None:
    """The status of a foreign hpa has no wish."""
    assert step_cause([_sync(1, 2, 2)], None, at=0, before=4, after=8, reason=reason) == reason


def test_bounds_alone_limit_a_first_poll() -> None:
    """Bounds alone limit a first poll."""
    assert bounded_cause("lag 25,000", 25, 1, 12).endswith("limited to 12 by the policy's maximum")
