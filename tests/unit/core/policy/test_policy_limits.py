"""A policy as one value: floor, ceiling, threshold, windows, and what fits a scenario."""

from __future__ import annotations

import math
import re
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.fakes.policies import (
    CPU,
    EXTERNAL,
    LAG_SCALER,
    behavior,
    composite,
    cron,
    hpa,
    kafka,
    limits,
    prometheus,
    scaled_object,
)
from tests.fakes.triggers import read_trigger

from lagbench.catalog.catalog import checked_cell, load_scenario
from lagbench.core.hpa.controller_flags import KUBERNETES_ANNOTATION
from lagbench.core.policy.policy import (
    Policy,
    check_fit,
    check_policy,
    require_kubernetes,
    require_own_controller,
)
from lagbench.core.policy.policy_limits import PolicyLimits, loop_gain, standing_lag_seconds
from lagbench.core.policy.stream_windows import (
    WINDOWS_ANNOTATION,
    StreamWindow,
    aligned_start_ns,
    at_stream_start,
)
from lagbench.errors import WrongInput

THRESHOLD = "lagbench.io/lag-threshold"


def lag_scaler(**metadata: str) -> dict[str, Any]:
    """Return a trigger that calls the lag scaler, by default with its threshold."""
    return {
        "type": "external",
        "metadata": {"scalerAddress": "s:1", "consumerGroup": "g", **metadata},
    }


VALUE = {**kafka(), "metricType": "Value"}
IN_SECONDS = lag_scaler(lagMetric="seconds", lagThreshold="30")
IDLE = {"allowIdleConsumers": "true"}
EVEN = {"ensureEvenDistributionOfPartitions": "true"}
LAG = 'sum(kafka_consumergroup_lag{consumergroup="g"})'


@pytest.mark.parametrize(
    ("spec", "threshold", "scales_at", "cap", "leaks"),
    [
        ({"triggers": [kafka(lagThreshold=None)]}, 10, 10, "keda", True),
        ({"triggers": [kafka(lagThreshold=" ")]}, 10, 10, "keda", True),
        ({"triggers": [kafka(lagThreshold="250"), cron()]}, 250, 250, "keda", True),
        ({"triggers": [kafka(lagThreshold="9"), kafka(lagThreshold="7")]}, 7, 7, "keda", True),
        ({"triggers": [kafka(**IDLE)]}, 500, 500, "none", False),
        ({"triggers": [kafka(**IDLE, **EVEN)]}, 500, 500, "keda", False),
        ({"triggers": [VALUE]}, 500, None, "none", False),
        ({"triggers": [LAG_SCALER]}, 500, 500, "exact", False),
        ({"triggers": [lag_scaler()]}, 500, 500, "exact", False),
        ({"triggers": [lag_scaler(lagThreshold="0.5")]}, 0.5, 0.5, "exact", False),
        ({"triggers": [lag_scaler(**IDLE)]}, 500, 500, "none", False),
        ({"triggers": [IN_SECONDS]}, None, None, "exact", False),
        ({"triggers": [LAG_SCALER, kafka()]}, 500, 500, "keda", True),
        ({"triggers": [prometheus(LAG), LAG_SCALER]}, 5, 5, "none", False),
        ({"triggers": [prometheus("up"), kafka()]}, 500, 500, "keda", True),
        ({"triggers": [EXTERNAL]}, None, None, "none", False),
        ({"triggers": [CPU]}, None, None, "none", False),
        ({"triggers": [{**kafka(), "type": "apache-kafka"}]}, 500, 500, "keda", True),
        (
            {"triggers": [{"type": "nats-jetstream", "metadata": {"lagThreshold": "5"}}]},
            *(5, 5, "none", False),
        ),
        (composite("a + b"), 500, None, "none", False),
    ],
)
def test_the_threshold_and_who_caps_at_the_partitions(
    spec: dict[str, Any], threshold: float | None, scales_at: float | None, cap: str, leaks: bool
) -> None:
    """The lowest threshold and the weakest cap count, since the HPA takes the highest proposal.

    KEDA's cap lets one replica more through, the lag scaler's none. A formula replaces all targets,
    and a target of the group (metricType Value) multiplies the ready pods.
    """
    found = limits(**spec)

    assert (found.lag_threshold_records, found.scales_at_records) == (threshold, scales_at)
    assert (found.partition_cap, found.leaks_one_replica) == (cap, leaks)


def test_keda_defaults_and_those_of_an_hpa_hold() -> None:
    """0 to 100 replicas; 1 for an HPA, whose metrics of other kinds may follow any load."""
    found = limits(minReplicaCount=None, maxReplicaCount=None)
    described = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {}}}
    plain, foreign = (
        Policy.read(hpa(**metrics), where="f").limits
        for metrics in ({}, {"metrics": [described]})  # type: ignore[dict-item]
    )

    assert (found.floor_replicas, found.ceiling_replicas) == (0, 100)
    assert (plain.floor_replicas, plain.ceiling_replicas) == (1, 3)
    assert (plain.reads_load, foreign.reads_load) == (False, True)


@pytest.mark.parametrize("manifest", [hpa(), scaled_object(triggers=[IN_SECONDS])])
def test_a_policy_without_records_of_lag_has_a_threshold_by_annotation(
    manifest: dict[str, Any],
) -> None:
    """So that it can be compared with a lag policy; the annotation is a number above 0."""
    for text in ("5000", "many", "0", "-5", "nan"):
        manifest["metadata"]["annotations"] = {THRESHOLD: text}
        if text == "5000":
            assert Policy.read(manifest, where="f").limits.lag_threshold_records == 5000
            continue
        with pytest.raises(WrongInput, check=lambda error: error.field == THRESHOLD):
            Policy.read(manifest, where="f")


@pytest.mark.parametrize(
    ("triggers", "reads_load", "reachable"),
    [
        ([kafka()], True, 12),
        ([CPU], False, 2),
        ([cron(7)], False, 7),
        ([cron(99)], False, 12),
        ([cron(7), kafka()], True, 12),
        ([IN_SECONDS], True, 12),
        ([{"type": "rabbitmq", "metadata": {}}], True, 12),
    ],
)
def test_what_brings_replicas_without_lag_in_records(
    triggers: list[dict[str, Any]], reads_load: bool, reachable: int
) -> None:
    """Hours bring theirs, a lag in seconds brings all; CPU is not counted on."""
    found = limits(triggers=triggers)

    assert (found.reads_load, found.reachable_replicas) == (reads_load, reachable)


@pytest.mark.parametrize(
    ("found", "numbers"),
    [
        (PolicyLimits(2, 12, 500, "lagThreshold 500"), ["500", "3"]),
        (PolicyLimits(2, 12, None, "none"), []),
        (limits(triggers=[VALUE]), ["500"]),
    ],
)
def test_the_lag_that_adds_a_replica_is_said_with_its_source(
    found: PolicyLimits, numbers: list[str]
) -> None:
    """The replicas are a part of it only where they multiply the threshold."""
    assert re.findall(r"\d+", found.scales_above_text(3)) == numbers


SYNC = {"lagbench.io/hpa-sync-seconds": "5"}


def test_the_gain_is_what_a_pod_works_off_between_two_syncs() -> None:
    """15 s x 250/s / 3,750 = 1; a third of the time is a third of the gain, not of the lag."""
    slow, fast = (limits(a, triggers=[kafka(lagThreshold="3750")]) for a in (None, SYNC))

    assert (loop_gain(250, slow), standing_lag_seconds(250, slow)) == (1, 15)
    assert loop_gain(250, fast) == pytest.approx(1 / 3)
    assert standing_lag_seconds(250, fast) == 15
    assert loop_gain(math.inf, slow) is None  # a message that costs nothing
    assert loop_gain(250, limits(triggers=[CPU])) is None
    assert standing_lag_seconds(250, limits(triggers=[CPU])) is None


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        ({"kind": "Deployment"}, "kind"),
        (scaled_object(triggers=[{"type": "rabbitmq", "metadata": {}}]), "spec.triggers[0].type"),
        ({**scaled_object(), "apiVersion": "keda.sh/v1"}, "apiVersion"),
        (hpa(minReplicas=4), "spec.maxReplicas"),
        *(
            ({**policy, "metadata": {"name": "c", "annotations": odd}}, "metadata.annotations")
            for policy in (scaled_object(), hpa())
            for odd in ([], ["x"], "x", 5)
        ),
    ],
)
def test_what_no_run_can_have_is_not_loaded(manifest: dict[str, Any], field: str) -> None:
    """No policy, one that is refused, and one that only KEDA can run."""
    with pytest.raises(WrongInput, check=lambda error: error.field == field):
        Policy.load(manifest, where="f")


def test_a_policy_is_loaded_as_its_author_wrote_it() -> None:
    """Fields that a cluster adds are dropped, and an HPA of v1 is one of v2."""
    stored = scaled_object(metadata={"uid": "u", "resourceVersion": "7"})
    old = hpa("autoscaling/v1", targetCPUUtilizationPercentage=70)

    assert Policy.load({**stored, "status": {}}, where="f").manifest == scaled_object()
    assert Policy.load(old, where="f").manifest["apiVersion"] == "autoscaling/v2"
    assert Policy.unknown("f", 3).limits.ceiling_replicas == 3


def test_a_cluster_whose_controller_does_not_read_the_flags_refuses_them() -> None:
    """KEDA would accept the policy, and Kubernetes would sync every 15 s."""
    policy = checked_cell("lab_spike", policy="lab-sync-5").policy

    require_own_controller(policy, where="lab-sync-5", is_embedded=True)
    with pytest.raises(WrongInput, check=lambda error: error.value == "5"):
        require_own_controller(policy, where="lab-sync-5", is_embedded=False)


def test_a_policy_that_is_handed_over_may_have_flags_on_a_cluster() -> None:
    """Lagbench's controller drives it there."""
    handed = scaled_object({**SYNC, "lagbench.io/scaled-by": "lagbench-autoscaler"})

    require_own_controller(Policy.read(handed, where="f"), where="handed", is_embedded=False)


@pytest.mark.parametrize(
    ("annotation", "cluster", "is_refused"),
    [
        (None, "v1.35.0", False),
        (None, "v1.34.4", True),
        ("1.37", "v1.35.0", False),
        ("1.34", "v1.37.2", True),
    ],
)
def test_a_tolerance_that_is_handed_over_needs_both_controller_and_api_server(
    annotation: str | None, cluster: str, *, is_refused: bool
) -> None:
    """Lagbench's controller follows its own version, and the cluster stores the HPA."""
    named = {} if annotation is None else {KUBERNETES_ANNOTATION: annotation}
    handed = scaled_object(
        {"lagbench.io/scaled-by": "lagbench-autoscaler", **named},
        advanced=behavior(scaleUp={"tolerance": "0.05"}),
    )
    refused = pytest.raises(WrongInput, check=lambda error: error.value == "0.05")

    with refused if is_refused else nullcontext():
        require_kubernetes(Policy.read(handed, where="f"), cluster)


@pytest.mark.parametrize(
    ("annotation", "cluster", "tolerance", "refused"),
    [
        (None, None, "0.05", None),
        ("1.34", None, "0.05", "0.05"),
        ("1.35", None, "0.05", None),
        (None, None, None, None),
        (None, "v1.34.4", "0.05", "0.05"),
        (None, "v1.35.0", "0.05", None),
        ("1.37", "v1.37.2", "0.05", None),
        ("1.37", "v1.38.0", None, None),
        ("1.37", "v1.36.1", None, "1.37"),
    ],
)
@pytest.mark.parametrize("is_hpa", [False, True])
def test_a_policy_that_needs_another_kubernetes_is_refused(
    annotation: str | None,
    cluster: str | None,
    tolerance: str | None,
    refused: str | None,
    *,
    is_hpa: bool,
) -> None:
    """A cluster's own version decides; on the embedded bench the annotation does."""
    rules = {"scaleUp": {"stabilizationWindowSeconds": 0}, "scaleDown": {"tolerance": tolerance}}
    made = hpa(behavior=rules) if is_hpa else scaled_object(advanced=behavior(**rules))
    made["metadata"]["annotations"] = annotation and {KUBERNETES_ANNOTATION: annotation}
    policy = Policy.load(made, where="f")

    if refused is None:
        require_kubernetes(policy, cluster)
        assert policy.limits.tolerances.down == float(tolerance or 0.1)
        return
    with pytest.raises(WrongInput, check=lambda error: error.value == refused):
        require_kubernetes(policy, cluster)


@pytest.mark.parametrize(
    ("stored", "is_same"), [("0.05", True), ("50m", True), ("0.050", True), ("51m", False)]
)
def test_a_stored_tolerance_is_compared_as_a_number(stored: str, *, is_same: bool) -> None:
    """KEDA's operator writes an object back when it adds its label, a tolerance of 0.05 as 50m."""
    made, kept = (
        scaled_object(advanced=behavior(scaleUp={"tolerance": text})) for text in ("0.05", stored)
    )
    applied = Policy.read(made, where="f").applied
    found = applied.difference("ScaledObject", applied.name, kept["spec"], None)

    assert (found == "") is is_same


def of_run(kind: str | None = None, **changes: Any) -> dict[str, Any]:
    """Return a policy of the consumers, on a workload of this kind, with fields replaced."""
    target = {"name": "consumer"} if kind is None else {"name": "consumer", "kind": kind}
    return scaled_object(changes.pop("annotations", None), scaleTargetRef=target, **changes)


EXTERNAL_METRIC = {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}
WINDOW = {"annotations": {WINDOWS_ANNOTATION: "60-120"}, "triggers": [kafka(), cron()]}
STATEFUL = {"consumer.workload": "StatefulSet"}


@pytest.mark.parametrize(
    ("overrides", "manifest", "field"),
    [
        ({}, of_run(), None),
        (STATEFUL, of_run(), None),  # a run fills the kind in
        ({}, of_run("Deployment"), None),
        ({}, of_run("StatefulSet"), "spec.scaleTargetRef.kind"),
        (STATEFUL, of_run("StatefulSet"), None),
        (STATEFUL, of_run("Deployment"), "spec.scaleTargetRef.kind"),
        ({}, of_run("ReplicaSet"), "spec.scaleTargetRef.kind"),
        ({}, scaled_object(), None),  # another workload: a run puts its own in its place
        ({}, of_run(maxReplicaCount=13), "spec.maxReplicaCount"),
        ({"allow_overscale": "true"}, of_run(maxReplicaCount=13), None),
        (
            {},
            of_run(triggers=[kafka(partitionLimitation="20-30")]),
            "spec.triggers[0].metadata.partitionLimitation",
        ),
        ({}, of_run(**WINDOW), None),
        ({"hpa_sync_at_seconds": "3"}, of_run(**WINDOW), "hpa_sync_at_seconds"),
        (
            {},
            hpa(metrics=[{"type": "External", "external": EXTERNAL_METRIC}]),
            "spec.metrics[0].type",
        ),
    ],
)
def test_what_a_policy_must_be_beside_a_scenario(
    overrides: dict[str, str], manifest: dict[str, Any], field: str | None
) -> None:
    """Of the consumers' workload, with no more replicas than partitions, on partitions it has."""
    scenario = load_scenario("quick_spike", overrides)
    if field is None:
        check_fit(scenario, check_policy(manifest, where="mine.yaml"))
        return
    with pytest.raises(WrongInput, check=lambda error: error.field == field):
        check_fit(scenario, check_policy(manifest, where="mine.yaml"))


NS = 1_000_000_000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HOURS = {"timezone": "Europe/Berlin", "start": "0 8 * * 1-5", "end": "0 18 * * 1-5"}


def policy(windows: str | None, *, cron_triggers: int = 1) -> dict[str, Any]:
    """Return a ScaledObject with a trigger on lag and cron triggers of production."""
    annotations = {} if windows is None else {WINDOWS_ANNOTATION: windows}
    return scaled_object(annotations, triggers=[kafka(), *[cron(6, **HOURS)] * cron_triggers])


def windows_of(text: str | None, cron_triggers: int = 1) -> tuple[StreamWindow, ...]:
    """Return the windows of such a policy."""
    return Policy.read(policy(text, cron_triggers=cron_triggers), where="p").windows


def test_each_cron_trigger_has_its_window() -> None:
    """The windows follow each other as the triggers do."""
    found = windows_of("60-180, 300 - 360", 2)

    assert found == (StreamWindow(60, 180), StreamWindow(300, 360))


def test_a_policy_without_the_annotation_stays_as_it_is() -> None:
    """Its cron triggers follow the wall clock, in a run as on a cluster."""
    plain = policy(None)

    assert windows_of(None) == ()
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
        windows_of(text, cron_triggers)

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
