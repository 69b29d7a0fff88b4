"""Replicas and HPAs as records."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.fakes.policies import kafka, scaled_object

from lagbench.core.telemetry.records_of_recorder import (
    HpaSample,
    ReadGap,
    ReplicaSample,
    UsageSample,
)
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.recorder.scaling_watch import (
    OwnScalers,
    Scaled,
    ScalerKind,
    UsageReading,
    hpa_sample,
    replica_reading,
    scaled_object_sample,
    scaler_reading,
)
from lagbench.programs.recorder.sources import parse_options

HPA: dict[str, Any] = {
    "metadata": {"name": "keda-hpa-consumer"},
    "spec": {
        "scaleTargetRef": {"kind": "Deployment", "name": "consumer"},
        "minReplicas": 2,
        "maxReplicas": 12,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": "s0-kafka-events"},
                    "target": {"type": "AverageValue", "averageValue": "100"},
                },
            }
        ],
    },
    "status": {
        "desiredReplicas": 6,
        "currentReplicas": 4,
        "lastScaleTime": "2026-11-21T10:00:02Z",
        "currentMetrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": "s0-kafka-events"},
                    "current": {"averageValue": "250"},
                },
            },
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "3m"}}},
        ],
        "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale"}],
    },
}


def scaled(deployment: dict[str, Any] | None = None, *hpas: dict[str, Any]) -> Scaled:
    """Return the workload ``consumer`` of an API with one Deployment and these in a list."""
    api: Any = SimpleNamespace(get=lambda *_: deployment, list=lambda _: [*hpas])
    return Scaled("consumer", Mock(), "recorder", lambda: api)


def test_absent_counts_of_a_deployment_are_zero() -> None:
    """Kubernetes leaves zeros out of a status; no Deployment is a reading that failed."""
    reading = replica_reading(scaled({"spec": {"replicas": 2}, "status": {"replicas": 1}}))

    assert list(reading(7)) == [
        ReplicaSample(at=7, source="recorder", spec=2, current=1, ready=0, available=0)
    ]
    with pytest.raises(NotReady, match="Deployment consumer"):
        replica_reading(scaled())(7)


def test_an_hpas_status_is_reported_as_stored() -> None:
    """Metrics and conditions keep their names and values."""
    assert hpa_sample(HPA, at=7, source="recorder") == HpaSample(
        at=7,
        source="recorder",
        name="keda-hpa-consumer",
        desired=6,
        current=4,
        metrics=["s0-kafka-events: averageValue 250", "cpu: averageValue 3m"],
        conditions=["AbleToScale=True ReadyForNewScale"],
        targets=["s0-kafka-events: averageValue 100"],
        totals={"s0-kafka-events": 1000.0},
        min_replicas=2,
        max_replicas=12,
        last_scaled_at=1_795_255_202 * 1_000_000_000,
    )


@pytest.mark.parametrize(
    ("current", "total"), [({"value": "9001500m"}, 9001.5), ({"averageValue": "2k"}, 8000.0)]
)
def test_a_metrics_total_is_over_all_pods(current: dict[str, str], total: float) -> None:
    """The status holds the total, or the average over the replicas it counted, or nothing yet."""
    metric = {"type": "External", "external": {"metric": {"name": "lag"}, "current": current}}
    hpa = HPA | {"status": {"currentReplicas": 4, "currentMetrics": [metric]}}

    assert hpa_sample(hpa, at=7, source="recorder").totals == {"lag": total}
    new = hpa_sample({"metadata": {"name": "h"}, "spec": HPA["spec"]}, at=7, source="recorder")
    assert (new.desired, new.current, new.metrics, new.totals) == (None, None, [], {})


def known_to(scalers: OwnScalers, kind: str, *names: str) -> list[str]:
    """Return which objects of a kind are known to scale the workload."""
    known: list[str] = []
    for name in names:
        scalers.once_known((kind, name), partial(known.append, name))
    return known


def test_the_scalers_of_the_deployment_are_reported() -> None:
    """Another workload's object is not this run's; one that KEDA has not seen has no condition.

    KEDA names the HPA in the status, so it is known without the right to list HPAs.
    """
    target = scaled_object(scaleTargetRef={"name": "consumer"})["spec"]
    conditions = [{"type": "Ready", "status": "False", "reason": "TriggerError"}]
    status = {"conditions": conditions, "hpaName": "keda-hpa-a"}
    reported = {"metadata": {"name": "a"}, "spec": target, "status": status}
    new = {"metadata": {"name": "b"}, "spec": target}
    other = {"metadata": {"name": "c"}, "spec": {"scaleTargetRef": {"name": "elsewhere"}}}

    def read(kind: ScalerKind, *stored: dict[str, Any]) -> list[Any]:
        return list(scaler_reading(kind, replace(scaled(None, *stored), scalers=scalers))(7))

    scalers = OwnScalers()
    found = read("ScaledObject", reported, new, other)
    assert [(one.name, one.conditions, one.tolerance) for one in found] == [
        ("a", ["Ready=False TriggerError"], 0.1),
        ("b", [], 0.1),
    ]
    assert known_to(scalers, "ScaledObject", "a", "b", "c") == ["a", "b"]
    assert known_to(scalers, "HorizontalPodAutoscaler", "keda-hpa-a") == ["keda-hpa-a"]
    assert len(read("HorizontalPodAutoscaler", other, HPA)) == 1
    name = HPA["metadata"]["name"]
    assert known_to(scalers, "HorizontalPodAutoscaler", name, "c") == [name]


FORMULA = {"scalingModifiers": {"formula": "lag / 10", "target": "1000"}}


@pytest.mark.parametrize(
    ("fields", "advanced", "targets"),
    [
        ({}, {}, (1000.0, None, 0.2)),
        ({"metricType": "Value"}, {}, (None, 1000.0, 0.2)),
        ({"metadata": {"lagThreshold": "many"}}, {}, (None, None, None)),
        ({"name": "lag"}, FORMULA, (None, None, 0.2)),
    ],
    ids=["of each replica", "of the group", "not a number", "of a formula"],
)
def test_the_targets_of_a_scaled_object_are_reported(
    fields: dict[str, Any], advanced: dict[str, Any], targets: tuple[float | None, ...]
) -> None:
    """They are those of the stored object, so that a policy that replaces another counts."""
    triggers = [{**kafka(lagThreshold="1000"), **fields}]
    stored = scaled_object(
        {"lagbench.io/hpa-tolerance": "0.2"}, triggers=triggers, advanced=advanced
    )

    seen = scaled_object_sample(stored, at=7, source="recorder")

    assert (seen.scales_at_records, seen.group_target_records, seen.tolerance) == targets


def test_a_living_process_is_sampled_and_one_that_ended_is_a_gap() -> None:
    """Its usage is unknown then, not zero."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        reading = UsageReading({"recorder": os.getpid(), "broker": child.pid}, source="recorder")
        before = list(reading(7))
    own, ended = reading(8)

    assert [type(sample) for sample in before] == [UsageSample, UsageSample]
    assert isinstance(own, UsageSample)
    assert own.component == "recorder"
    assert own.cpu_seconds > 0
    assert own.memory_bytes > 1_000_000
    assert isinstance(ended, ReadGap)
    assert ended.reason.startswith("broker")


ENVIRONMENT = {"POD_NAME": "recorder-1", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092"}


def test_the_run_id_is_enough() -> None:
    """Topics, group, namespace, deployment and the run's own pods have names of their own."""
    options = parse_options(["--run-id=quick-1"], ENVIRONMENT)

    assert (options.topic, options.group) == ("lagbench.quick-1.events", "enrich.quick-1")
    assert options.telemetry_topic == "lagbench.quick-1.telemetry"
    assert (options.namespace, options.deployment) == ("lagbench", "consumer")
    assert (options.source, options.interval_seconds) == ("recorder-1", 1.0)
    assert (options.observed_pids, options.has_metric_aliases) == ({}, False)
    assert options.pod_selector == "app=consumer,lagbench.io/run-id=quick-1"
    topics = ["--topic=a", "--group=b", "--telemetry-topic=c", "-metric-aliases"]
    without_run = parse_options(topics, ENVIRONMENT)
    assert (without_run.pod_selector, without_run.has_metric_aliases) == ("app=consumer", True)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ([], "--topic"),
        (["--run-id=a", "--interval-seconds=0"], "--interval-seconds"),
        (["--run-id=a", '--observed-pids={"a": "b"}'], "--observed-pids.a"),
    ],
)
def test_wrong_input_is_named(arguments: list[str], field: str) -> None:
    """The error has the flag."""
    with pytest.raises(WrongInput, check=lambda error: error.field == field):
        parse_options(arguments, ENVIRONMENT)
