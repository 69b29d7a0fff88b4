"""How far a policy climbs, and which counts below the partitions hold it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.policy.review.test_findings import behavior, kafka, policy

from lagbench.core.policy.review.finding import Finding, PolicyContext
from lagbench.core.policy.review.policy_review import PolicyReview, review_policy

ONE_POD = behavior(scaleUp={"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]})


def review(partitions: int | None, **spec: Any) -> PolicyReview:
    """Return the review of a policy that adds one pod per sync."""
    context = PolicyContext(partitions=partitions, pod_rate=500, slo_seconds=30)
    return review_policy(policy(advanced=ONE_POD, **spec), where="file", context=context)


def finding(found: PolicyReview, code: str) -> Finding:
    """Return the one finding of a code."""
    (only,) = [item for item in found.findings if item.code == code]
    return only


@pytest.mark.parametrize(
    ("partitions", "idles", "top"),
    [(100, "false", 24), (24, "true", 24), (None, "false", 24), (24, "false", 22)],
)
def test_only_the_cap_of_the_metric_holds_a_climb_below_the_ceiling(
    partitions: int | None, idles: str, top: int
) -> None:
    """The ceiling of 24 cuts off a higher proposal; a metric capped at 24 stays near enough."""
    triggers = [kafka(allowIdleConsumers=idles)]
    found = review(partitions, maxReplicaCount=24, triggers=triggers)

    assert found.climb[-1] == top


def test_a_ceiling_just_below_the_partitions_is_not_reached() -> None:
    """24 wanted and 22 there is within the tolerance of 10 %, so 23 never come."""
    found = review(24, maxReplicaCount=23)

    sticks = finding(found, "cap-sticks")
    assert (sticks.level, found.climb[-1]) == ("warning", 22)


def composite(threshold: str, target: str) -> dict[str, Any]:
    """Return the spec of a formula that is the lag of its only trigger."""
    modifiers = {"formula": "lag", "target": target}
    return {
        "triggers": [{**kafka(lagThreshold=threshold), "name": "lag"}],
        "advanced": {**ONE_POD, "scalingModifiers": modifiers},
    }


def test_under_a_formula_the_trigger_s_threshold_is_no_lag_per_replica() -> None:
    """No gain, no rest, no word against the SLO come from a number that the HPA never sees."""
    spec = composite("5", "5")
    context = PolicyContext(partitions=12, pod_rate=500, slo_seconds=30)
    found = review_policy(policy(**spec), where="file", context=context)

    assert (found.loop_gain, found.standing_lag_seconds) == (None, None)
    assert not {"threshold-suggestion", "threshold-breaks-slo", "cap-sticks"} & {*found.codes}
    assert "composite-targets" in found.codes


def test_a_formula_whose_target_is_far_above_the_capped_lag_is_warned_of() -> None:
    """12 partitions x 5 are 60, and 60 of 11,250 is one replica, whatever the lag."""
    context = PolicyContext(partitions=12)
    spec = composite("5", "11250")
    found = review_policy(policy(**spec), where="file", context=context)

    capped = finding(found, "composite-capped")
    assert capped.level == "warning"
    assert " 1 " in capped.happens
    assert "11250" in capped.instead


@pytest.mark.parametrize("spec", [composite("500", "500"), composite("6000", "500")])
def test_a_formula_with_the_trigger_s_own_target_reaches_the_partitions(
    spec: dict[str, Any],
) -> None:
    """The cap divided by the target is one replica per partition, or more."""
    context = PolicyContext(partitions=12)
    found = review_policy(policy(**spec), where="file", context=context)

    assert "composite-capped" not in found.codes


def test_a_target_of_the_whole_group_has_no_cap_that_sticks() -> None:
    """Its ratio multiplies the ready pods: it neither leaks one replica nor sticks."""
    found = review(24, maxReplicaCount=48, triggers=[{**kafka(), "metricType": "Value"}])

    assert "cap-sticks" not in found.codes
    assert " 24 " in finding(found, "max-over-partitions").happens


@pytest.mark.parametrize(("slo", "is_said"), [(5, True), (30, False)])
def test_a_suggested_threshold_says_its_loop_gain(slo: float, is_said: bool) -> None:
    """500/s x 5 s x 0.75 has a gain of 4: without a window the replicas swing by themselves."""
    context = PolicyContext(partitions=12, pod_rate=500, slo_seconds=slo)
    triggers = [kafka(lagThreshold="100000")]
    found = review_policy(policy(triggers=triggers), where="file", context=context)

    advice = finding(found, "threshold-breaks-slo").instead
    assert (" 4.0 " in advice) is is_said
