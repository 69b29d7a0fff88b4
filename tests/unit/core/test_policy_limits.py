"""Floor, ceiling and threshold of a policy."""

from typing import Any

import pytest

from lagbench.core.policy_limits import policy_limits
from lagbench.errors import WrongInput


def scaled_object(spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a ScaledObject."""
    return {"kind": "ScaledObject", "metadata": metadata or {}, "spec": spec}


def test_a_lag_policy_states_its_threshold() -> None:
    """It is lagThreshold of the first trigger that has one."""
    trigger = {"type": "kafka", "metadata": {"lagThreshold": "250"}}
    cron = {"type": "cron", "metadata": {}}

    limits = policy_limits(
        scaled_object({"minReplicaCount": 2, "maxReplicaCount": 12, "triggers": [cron, trigger]})
    )

    assert (limits.floor_replicas, limits.ceiling_replicas) == (2, 12)
    assert limits.lag_threshold_records == 250


def test_keda_defaults_hold() -> None:
    """0 to 100 replicas, lagThreshold 10."""
    limits = policy_limits(scaled_object({"triggers": [{"type": "kafka", "metadata": {}}]}))

    assert (limits.floor_replicas, limits.ceiling_replicas) == (0, 100)
    assert limits.lag_threshold_records == 10


def test_a_cpu_policy_has_a_threshold_by_annotation_only() -> None:
    """So that it can be compared with a lag policy."""
    hpa = {"kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 9}, "metadata": {}}
    annotated = {**hpa, "metadata": {"annotations": {"lagbench.io/lag-threshold": "1000"}}}

    assert policy_limits(hpa).lag_threshold_records is None
    assert policy_limits(hpa).floor_replicas == 1
    assert policy_limits(annotated).lag_threshold_records == 1000


@pytest.mark.parametrize("threshold", ["many", "0", "-5", None, "nan"])
def test_a_threshold_that_is_none_is_refused(threshold: object) -> None:
    """The message names the field and the value."""
    trigger = {"type": "kafka", "metadata": {"lagThreshold": threshold}}

    with pytest.raises(WrongInput, match="lagThreshold"):
        policy_limits(scaled_object({"triggers": [trigger]}))


def test_another_kind_is_no_policy() -> None:
    """A Deployment scales nothing."""
    with pytest.raises(WrongInput, match="ScaledObject or HorizontalPodAutoscaler"):
        policy_limits({"kind": "Deployment"})
