"""Floor, ceiling and threshold of a policy."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from lagbench.catalog.catalog import checked_cell
from lagbench.core.policy.checked_policy import require_own_controller
from lagbench.core.policy.policy_limits import (
    PolicyLimits,
    loop_gain,
    policy_limits,
    standing_lag_seconds,
)
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


@pytest.mark.parametrize("threshold", ["many", "0", "-5", "nan"])
def test_a_threshold_that_is_none_is_refused(threshold: object) -> None:
    """The message names the field and the value."""
    trigger = {"type": "kafka", "metadata": {"lagThreshold": threshold}}

    with pytest.raises(WrongInput, check=lambda error: error.field == "lagThreshold"):
        policy_limits(scaled_object({"triggers": [trigger]}))


def test_a_blank_threshold_counts_as_absent() -> None:
    """KEDA trims values, and the API server drops a null: its default of 10 applies."""
    for threshold in ("", " ", None):
        trigger = {"type": "kafka", "metadata": {"lagThreshold": threshold}}
        assert policy_limits(scaled_object({"triggers": [trigger]})).scales_at_records == 10


@pytest.mark.parametrize(
    ("triggers", "cap"),
    [
        ([{"type": "kafka", "metadata": {}}], "keda"),
        ([{"type": "kafka", "metadata": {"allowIdleConsumers": "true"}}], "none"),
        ([{"type": "external", "metadata": {"consumerGroup": "g"}}], "exact"),
        ([{"type": "external", "metadata": {"consumerGroup": "g"}}, {"type": "kafka"}], "keda"),
        ([{"type": "external", "metadata": {}}], "none"),
        ([{"type": "cpu", "metadata": {"value": "50"}}], "none"),
    ],
)
def test_who_caps_at_the_partitions(triggers: list[dict[str, Any]], cap: str) -> None:
    """KEDA's trigger lets one replica more through, the lag scaler none, idle consumers all."""
    assert policy_limits(scaled_object({"triggers": triggers})).partition_cap == cap


def test_a_threshold_in_seconds_is_no_number_of_records() -> None:
    """With lagMetric seconds the annotation says at how many records the backlog is drained."""
    metadata = {"consumerGroup": "g", "lagMetric": "seconds", "lagThreshold": "30"}
    manifest = scaled_object({"triggers": [{"type": "external", "metadata": metadata}]})

    assert policy_limits(manifest).lag_threshold_records is None
    manifest["metadata"] = {"annotations": {"lagbench.io/lag-threshold": "5000"}}
    assert policy_limits(manifest).lag_threshold_records == 5000


def test_another_kind_is_no_policy() -> None:
    """A Deployment scales nothing."""
    with pytest.raises(WrongInput, check=lambda error: error.value == "Deployment"):
        policy_limits({"kind": "Deployment"})


def kafka(threshold: int, **fields: Any) -> dict[str, Any]:
    """Return a kafka trigger."""
    return {"type": "kafka", "metadata": {"lagThreshold": str(threshold)}, **fields}


@pytest.mark.parametrize("thresholds", [(1_000_000, 1_000), (1_000, 1_000_000)])
def test_the_lowest_of_several_thresholds_rules(thresholds: tuple[int, int]) -> None:
    """The HPA takes the highest proposal, in whatever order the triggers are written."""
    limits = policy_limits(scaled_object({"triggers": [kafka(each) for each in thresholds]}))

    assert (limits.lag_threshold_records, limits.scales_at_records) == (1_000, 1_000)


def test_a_threshold_below_one_is_not_cut_to_zero() -> None:
    """The lag scaler takes a fraction, and one replica for it."""
    trigger = {"type": "external", "metadata": {"consumerGroup": "g", "lagThreshold": "0.5"}}

    assert policy_limits(scaled_object({"triggers": [trigger]})).scales_at_records == 0.5


def test_a_formula_replaces_the_targets_of_the_triggers() -> None:
    """Its result is held against its own target: neither threshold nor cap count replicas."""
    advanced = {"scalingModifiers": {"formula": "lag", "target": "11250"}}
    limits = policy_limits(scaled_object({"triggers": [kafka(5)], "advanced": advanced}))

    assert (limits.scales_at_records, limits.partition_cap) == (None, "none")
    assert limits.reads_load
    assert limits.lag_threshold_records == 5


def test_a_target_of_the_whole_group_counts_no_lag_per_replica() -> None:
    """With metricType Value the ratio multiplies the ready pods, so the cap is none."""
    limits = policy_limits(scaled_object({"triggers": [kafka(500, metricType="Value")]}))

    assert (limits.scales_at_records, limits.partition_cap) == (None, "none")
    assert not limits.leaks_one_replica


@pytest.mark.parametrize(
    ("triggers", "reads_load", "reachable"),
    [
        ([kafka(500)], True, 12),
        ([{"type": "cpu", "metadata": {"value": "50"}}], False, 2),
        ([{"type": "cron", "metadata": {"desiredReplicas": "7"}}], False, 7),
        ([{"type": "cron", "metadata": {"desiredReplicas": "99"}}], False, 12),
        ([{"type": "cron", "metadata": {"desiredReplicas": "7"}}, kafka(500)], True, 12),
        (
            [{"type": "external", "metadata": {"consumerGroup": "g", "lagMetric": "seconds"}}],
            True,
            12,
        ),
    ],
)
def test_what_brings_replicas_without_lag_in_records(
    triggers: list[dict[str, Any]], reads_load: bool, reachable: int
) -> None:
    """Hours bring theirs, a lag in seconds brings all; CPU is not counted on."""
    spec = {"minReplicaCount": 2, "maxReplicaCount": 12, "triggers": triggers}
    limits = policy_limits(scaled_object(spec))

    assert (limits.reads_load, limits.reachable_replicas) == (reads_load, reachable)


def test_an_even_distribution_leaks_no_replica() -> None:
    """KEDA then requests divisors of the partitions alone."""
    even = kafka(500)
    even["metadata"]["ensureEvenDistributionOfPartitions"] = "true"

    assert policy_limits(scaled_object({"triggers": [kafka(500)]})).leaks_one_replica
    assert not policy_limits(scaled_object({"triggers": [even]})).leaks_one_replica


@pytest.mark.parametrize(
    ("limits", "numbers"),
    [
        (PolicyLimits(2, 12, 500, "lagThreshold 500"), ["500", "3"]),
        (PolicyLimits(2, 12, None, "none"), []),
        (policy_limits(scaled_object({"triggers": [kafka(500, metricType="Value")]})), ["500"]),
    ],
)
def test_the_lag_that_adds_a_replica_is_said_with_its_source(
    limits: PolicyLimits, numbers: list[str]
) -> None:
    """The replicas are a part of it only where they multiply the threshold."""
    assert re.findall(r"\d+", limits.scales_above_text(3)) == numbers


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
