"""A policy that is checked, and how it fits a scenario."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.fakes.triggers import read_trigger

from lagbench.catalog.catalog import load_policy, load_scenario
from lagbench.core.policy.checked_policy import check_fit, check_policy
from lagbench.core.policy.stream_windows import (
    WINDOWS_ANNOTATION,
    StreamWindow,
    aligned_start_ns,
    at_stream_start,
    stream_windows,
)
from lagbench.errors import WrongInput


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
    with pytest.raises(WrongInput, check=lambda error: error.field == "spec.scaleTargetRef"):
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
