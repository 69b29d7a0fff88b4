"""Floor, ceiling and threshold of a policy."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.fakes.triggers import read_trigger

from lagbench.catalog.catalog import checked_cell, load_policy, load_scenario
from lagbench.core.policy.checked_policy import check_fit, check_policy, require_own_controller
from lagbench.core.policy.policy_limits import (
    PolicyLimits,
    loop_gain,
    policy_limits,
    standing_lag_seconds,
)
from lagbench.core.policy.stream_windows import (
    WINDOWS_ANNOTATION,
    StreamWindow,
    aligned_start_ns,
    at_stream_start,
    stream_windows,
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


def test_more_replicas_than_partitions_do_not_fit() -> None:
    """The message names the policy's file and the field of its kind."""
    manifest = load_policy("lag-quick").manifest
    many = {**manifest, "spec": {**manifest["spec"], "maxReplicaCount": 13}}
    scenario = load_scenario("quick_spike")

    with pytest.raises(WrongInput) as caught:
        check_fit(scenario, check_policy(many, where="mine.yaml"))

    assert (caught.value.where, caught.value.field) == ("mine.yaml", "spec.maxReplicaCount")
    check_fit(
        load_scenario("quick_spike", {"allow_overscale": "true"}),
        check_policy(many, where="mine.yaml"),
    )


def test_a_wrong_threshold_names_the_policy_s_file() -> None:
    """The annotation of a policy without a lag trigger must be a number above 0."""
    manifest = load_policy("cpu-only").manifest
    metadata = {**manifest["metadata"], "annotations": {"lagbench.io/lag-threshold": "many"}}

    with pytest.raises(WrongInput) as caught:
        check_policy({**manifest, "metadata": metadata}, where="mine.yaml")

    assert (caught.value.where, caught.value.value) == ("mine.yaml", "many")


def on(kind: str) -> dict[str, Any]:
    """Return a policy that names the kind of its target."""
    manifest = load_policy("lag-quick").manifest
    target = {**manifest["spec"]["scaleTargetRef"], "kind": kind}
    return {**manifest, "spec": {**manifest["spec"], "scaleTargetRef": target}}


@pytest.mark.parametrize(
    ("workload", "kind"), [("Deployment", "StatefulSet"), ("StatefulSet", "Deployment")]
)
def test_a_policy_must_not_name_the_other_kind_of_workload(workload: str, kind: str) -> None:
    """The message names both kinds."""
    scenario = load_scenario("quick_spike", {"consumer.workload": workload})

    with pytest.raises(WrongInput) as caught:
        check_fit(scenario, check_policy(on(kind), where="mine.yaml"))

    assert (caught.value.field, caught.value.value) == ("spec.scaleTargetRef.kind", kind)
    assert workload in caught.value.allowed
    check_fit(scenario, check_policy(on(workload), where="mine.yaml"))


def test_a_policy_without_a_kind_fits_both_workloads() -> None:
    """A run fills the kind in."""
    for workload in ("Deployment", "StatefulSet"):
        scenario = load_scenario("quick_spike", {"consumer.workload": workload})
        check_fit(scenario, load_policy("lag-quick"))


def test_other_workloads_are_refused() -> None:
    """Only the two kinds that the consumers can be may be scaled."""
    with pytest.raises(WrongInput, check=lambda error: error.field == "spec.scaleTargetRef.kind"):
        check_policy(on("ReplicaSet"), where="mine.yaml")


NS = 1_000_000_000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HOURS = {"timezone": "Europe/Berlin", "start": "0 8 * * 1-5", "end": "0 18 * * 1-5"}


def policy(windows: str | None, *, cron_triggers: int = 1) -> dict[str, Any]:
    """Return a ScaledObject with a trigger on lag and cron triggers of production."""
    cron = {"type": "cron", "metadata": {**HOURS, "desiredReplicas": "6"}}
    annotations = {} if windows is None else {WINDOWS_ANNOTATION: windows}
    return {
        "kind": "ScaledObject",
        "metadata": {"annotations": annotations},
        "spec": {"triggers": [{"type": "kafka", "metadata": {}}, *[cron] * cron_triggers]},
    }


def test_each_cron_trigger_has_its_window() -> None:
    """The windows follow each other as the triggers do."""
    found = stream_windows(policy("60-180, 300 - 360", cron_triggers=2), where="p")

    assert found == (StreamWindow(60, 180), StreamWindow(300, 360))


def test_a_policy_without_the_annotation_stays_as_it_is() -> None:
    """Its cron triggers follow the wall clock, in a run as on a cluster."""
    plain = policy(None)

    assert stream_windows(plain, where="p") == ()
    assert at_stream_start(plain, 5 * NS, where="p") == plain


@pytest.mark.parametrize(
    ("text", "cron_triggers"),
    [
        ("60-170", 1),  # not whole minutes long
        ("60-120, 190-250", 2),  # not whole minutes apart
        ("180-60", 1),
        ("60-60", 1),
        ("60", 1),
        ("soon", 1),
        ("", 1),
        ("60-120", 0),
        ("60-120", 2),
        ("60-120, 180-240", 1),
    ],
)
def test_a_window_that_cron_cannot_keep_is_rejected(text: str, cron_triggers: int) -> None:
    """The error names the annotation and its text."""
    with pytest.raises(WrongInput) as refused:
        stream_windows(policy(text, cron_triggers=cron_triggers), where="p")

    assert WINDOWS_ANNOTATION in refused.value.field
    assert refused.value.value == text


@pytest.mark.parametrize("from_seconds", [0, 30, 60, 95])
def test_the_stream_starts_so_that_edges_are_whole_minutes(from_seconds: int) -> None:
    """It starts at the first such instant, within a minute."""
    earliest_ns = 1_795_423_187_123_456_789
    windows = (StreamWindow(from_seconds, from_seconds + 120),)

    starts_at_ns = aligned_start_ns(windows, earliest_ns)

    assert 0 <= starts_at_ns - earliest_ns < 60 * NS
    assert (starts_at_ns + from_seconds * NS) % (60 * NS) == 0


@pytest.mark.parametrize(
    "start", ["2026-11-23T08:59:30+00:00", "2026-12-31T23:58:30+00:00", "2028-02-28T23:59:30+00:00"]
)
def test_the_trigger_is_open_in_its_window_of_the_stream_and_nowhere_else(start: str) -> None:
    """KEDA's rule says so on both sides of each edge, also over midnight and new year."""
    started = datetime.fromisoformat(start)
    starts_at_ns = (started - EPOCH) // timedelta(seconds=1) * NS

    placed = at_stream_start(policy("90-210"), starts_at_ns, where="p")

    trigger = read_trigger("cron", placed["spec"]["triggers"][1]["metadata"])
    is_open = {
        second: trigger.window_at(started + timedelta(seconds=second)).is_within
        for second in (-3600, 0, 89, 90, 209, 210, 86_400)
    }
    assert [second for second, within in is_open.items() if within] == [90, 209]
    assert trigger.desired_replicas == 6


def test_a_window_can_be_placed_again() -> None:
    """A retry places it in the stream that it plans, not where the first attempt did."""
    once = at_stream_start(policy("60-180"), 0, where="p")
    again = at_stream_start(once, 3600 * NS, where="p")

    assert once["spec"]["triggers"][1]["metadata"]["start"] == "1 0 1 1 *"
    assert again["spec"]["triggers"][1]["metadata"]["start"] == "1 1 1 1 *"
    assert policy("60-180")["spec"]["triggers"][1]["metadata"]["start"] == HOURS["start"]
