"""Manifests of a run with two consumer groups, from the committed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from tests.unit.core.cluster.consumer_pod import read_by

from lagbench.adapters.kube.cluster_check import base_manifest, base_objects
from lagbench.catalog.catalog import load_policy, load_scenario
from lagbench.core.cluster.manifests import (
    Manifest,
    RunTarget,
    companion_for_run,
    consumer_for_run,
    lag_scaler_for_run,
    prometheus_for_run,
    recorder_for_run,
)
from lagbench.core.cluster.policy_manifest import (
    RUN_RIGHTS,
    asks_lag_scaler,
    asks_prometheus,
    policy_for_run,
)
from lagbench.core.cluster.run_jobs import producer_job_for_run
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.programs.consumer.consumer_settings import parse_options as parse_consumer
from lagbench.programs.producer.producer_settings import read_settings
from lagbench.programs.recorder.recorder_settings import parse_options as parse_recorder

FIRST = RunTarget(RunNames("quick-spike-1"), "127.0.0.1:19092")
SECOND = RunTarget(FIRST.names.second, "127.0.0.1:19092")
ACCOUNTS = ("ServiceAccount", "Role", "RoleBinding")
Make = Callable[[RunTarget], Manifest]


def workloads(target: RunTarget) -> list[Manifest]:
    """Return every Deployment that a group has its own of."""
    made: list[Make] = [
        lambda t: consumer_for_run(
            base_manifest("consumer", "Deployment"), t, ConsumerSettings(), replicas=2
        ),
        lambda t: recorder_for_run(base_manifest("recorder", "Deployment"), t),
        lambda t: lag_scaler_for_run(base_manifest("lag-scaler", "Deployment"), t),
        lambda t: prometheus_for_run(
            base_manifest("prometheus", "Deployment"), t, scraped_address="127.0.0.1:1"
        ),
    ]
    return [make(target) for make in made]


def companions(target: RunTarget) -> list[Manifest]:
    """Return the objects beside them."""
    folders = ("consumer", "recorder", "lag-scaler", "prometheus")
    return [companion_for_run(one, target) for name in folders for one in base_objects(name)]


def selectors(manifest: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """Yield the labels by which an object selects pods."""
    selector = (manifest.get("spec") or {}).get("selector")
    if selector is not None:
        yield selector.get("matchLabels", selector)


def fits(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether pods with the labels are selected."""
    return selector.items() <= labels.items()


def test_no_selector_of_one_group_fits_pods_of_the_other() -> None:
    """Each workload, Service and budget selects pods of its own group, and none of the other."""
    for own, other in ((FIRST, SECOND), (SECOND, FIRST)):
        mine = [made["spec"]["template"]["metadata"]["labels"] for made in workloads(own)]
        theirs = [made["spec"]["template"]["metadata"]["labels"] for made in workloads(other)]
        for manifest in (*workloads(own), *companions(own)):
            for selector in selectors(manifest):
                assert any(fits(selector, labels) for labels in mine), manifest["metadata"]
                assert not any(fits(selector, labels) for labels in theirs), manifest["metadata"]


def test_no_object_of_one_group_replaces_one_of_the_other() -> None:
    """Kinds and names are apart, except for accounts and roles, which both groups use."""
    first, second = (
        {
            (made["kind"], made["metadata"]["name"])
            for made in (*workloads(target), *companions(target))
            if made["kind"] not in ACCOUNTS
        }
        for target in (FIRST, SECOND)
    )
    assert len(first) == len(second)
    assert not first & second


def test_the_lag_scaler_s_windows_are_its_group_s() -> None:
    """The claim that its pod mounts is the one of its own group."""
    scaler = lag_scaler_for_run(base_manifest("lag-scaler", "Deployment"), SECOND)
    claim = next(one for one in companions(SECOND) if one["kind"] == "PersistentVolumeClaim")

    (volume,) = scaler["spec"]["template"]["spec"]["volumes"]

    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


def test_the_programs_of_the_second_group_use_its_names() -> None:
    """Consumer and recorder read group, ledger and telemetry; the events are those of the run."""
    consumer, recorder, *_ = workloads(SECOND)
    names = SECOND.names

    worker, observer = read_by(parse_consumer, consumer), read_by(parse_recorder, recorder)

    assert worker.topic == observer.topic == FIRST.names.events_topic
    assert worker.group == observer.group == names.group
    assert worker.processed_topic == names.processed_topic
    assert worker.telemetry_topic == observer.telemetry_topic == names.telemetry_topic
    assert observer.deployment == "second-consumer"
    assert observer.pod_selector == f"app=second-consumer,{RUN_ID_LABEL}=quick-spike-1"


@pytest.mark.parametrize(("second", "topic"), [(None, None), ({}, SECOND.names.telemetry_topic)])
def test_the_producer_reports_to_both_groups(second: object, topic: str | None) -> None:
    """Each group's folder then shows the load; a run with one group has no such flag."""
    data = load_scenario("quick_spike").model_dump(mode="json") | {"second_group": second}
    scenario = type(load_scenario("quick_spike")).model_validate(data)

    made = producer_job_for_run(base_manifest("producer", "Job"), FIRST, scenario, tail=None)

    assert read_by(read_settings, made).flags.second_telemetry_topic == topic


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("lag-quick", None),
        ("persistent-lag", "second-lagbench-lag-scaler.lagbench:6000"),
        ("prometheus-lag", "http://second-lagbench-prometheus.lagbench:9090"),
        ("cpu-only", None),
    ],
)
def test_a_policy_of_the_second_group_scales_and_reads_its_own(
    name: str, address: str | None
) -> None:
    """Target, group and telemetry are its own, and so are the servers that its triggers call."""
    made = policy_for_run(load_policy(name).manifest, SECOND, is_embedded=True)

    assert made["metadata"]["name"] == "second-consumer"
    assert made["spec"]["scaleTargetRef"]["name"] == "second-consumer"
    annotations = made["metadata"]["annotations"]
    assert annotations["lagbench.io/telemetry-topic"] == SECOND.names.telemetry_topic
    metadata = [trigger.get("metadata") or {} for trigger in made["spec"].get("triggers") or []]
    groups = {found["consumerGroup"] for found in metadata if "consumerGroup" in found}
    assert groups <= {SECOND.names.group}
    called = {found.get("scalerAddress") or found.get("serverAddress") for found in metadata}
    assert called - {None} == ({address} if address else set())
    given = load_policy(name).manifest  # what a run starts beside it is decided by either
    assert asks_lag_scaler(made) == asks_lag_scaler(given)
    assert asks_prometheus(made) == asks_prometheus(given)


def test_the_runner_s_role_is_not_bound_to_names() -> None:
    """Its rights hold for every object of a kind, so also for those of the second group."""
    role = base_manifest("runner", "Role")
    granted = {
        (group, resource.partition("/")[0])
        for rule in role["rules"]
        if not rule.get("resourceNames")
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {(right.group, right.resource) for right in RUN_RIGHTS} <= granted
