"""The gain of a lag trigger's loop, and who may run a policy with flags of its own."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lagbench.catalog.catalog import checked_cell
from lagbench.core.policy.controller import require_own_controller
from lagbench.core.policy.limits import PolicyLimits, policy_limits
from lagbench.core.policy.loop_gain import loop_gain, standing_lag_seconds
from lagbench.errors import WrongInput

SYNC = {"lagbench.io/hpa-sync-seconds": "5"}


def limits(threshold: str, annotations: dict[str, str] | None = None) -> PolicyLimits:
    """Return the limits of a lag policy."""
    trigger = {"type": "kafka", "metadata": {"lagThreshold": threshold}}
    metadata: dict[str, Any] = {"annotations": annotations or {}}
    spec = {"triggers": [trigger]}
    return policy_limits({"kind": "ScaledObject", "metadata": metadata, "spec": spec})


def test_the_gain_is_what_a_pod_works_off_between_two_syncs() -> None:
    """15 s x 250/s / 3,750 = 1; at rest the lag is 15 s."""
    assert loop_gain(250, limits("3750")) == 1
    assert standing_lag_seconds(250, limits("3750")) == 15


def test_a_shorter_sync_lowers_the_gain_and_not_the_lag_at_rest() -> None:
    """A third of the time, a third of the gain."""
    assert loop_gain(250, limits("3750", SYNC)) == pytest.approx(1 / 3)
    assert standing_lag_seconds(250, limits("3750", SYNC)) == 15


def test_without_a_rate_or_a_threshold_there_is_none() -> None:
    """A message that costs nothing, and a policy on CPU."""
    on_cpu = checked_cell("lab_spike", policy="lab-cpu").policy.limits

    assert loop_gain(math.inf, limits("500")) is None
    assert loop_gain(250, on_cpu) is None
    assert standing_lag_seconds(250, on_cpu) is None


def test_a_cluster_whose_controller_does_not_read_the_flags_refuses_them() -> None:
    """KEDA would accept the policy, and Kubernetes would sync every 15 s."""
    manifest = checked_cell("lab_spike", policy="lab-sync-5").policy.manifest

    require_own_controller(manifest, where="lab-sync-5", is_embedded=True)
    with pytest.raises(WrongInput, check=lambda error: error.value == "5"):
        require_own_controller(manifest, where="lab-sync-5", is_embedded=False)


def test_a_policy_that_is_handed_over_may_have_flags_on_a_cluster() -> None:
    """Lagbench's controller drives it there."""
    manifest = checked_cell("lab_spike", policy="lab-sync-5").policy.manifest
    annotations = {**SYNC, "lagbench.io/scaled-by": "lagbench-autoscaler"}
    handed = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}

    require_own_controller(handed, where="handed", is_embedded=False)
