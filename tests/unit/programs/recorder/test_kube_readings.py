"""Replicas and HPAs as records."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest

from lagbench.adapters.kube.kube import Kube
from lagbench.core.telemetry.records import HpaSample, ReplicaSample, ScaledObjectSample
from lagbench.errors import NotReady
from lagbench.programs.recorder.kube_readings import (
    hpa_reading,
    hpa_sample,
    replica_reading,
    scaled_object_reading,
    scaled_object_sample,
)
from lagbench.programs.recorder.own_scalers import OwnScalers

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


class StoredObjects:
    """Objects as the API would return them."""

    def __init__(self, deployment: dict[str, Any] | None, hpas: list[dict[str, Any]]) -> None:
        """Store one Deployment and some HPAs."""
        self._deployment, self._hpas = deployment, hpas

    def get(self, _kind: str, _name: str) -> dict[str, Any] | None:
        """Return the Deployment."""
        return self._deployment

    def list(self, _kind: str) -> list[dict[str, Any]]:
        """Return the HPAs."""
        return self._hpas


def kube(deployment: dict[str, Any] | None = None, *hpas: dict[str, Any]) -> Kube:
    """Return a Kube that knows these objects."""
    return cast("Kube", StoredObjects(deployment, list(hpas)))


def test_absent_counts_of_a_deployment_are_zero() -> None:
    """Kubernetes leaves zeros out of a status: there absent does mean none."""
    stored = kube({"spec": {"replicas": 2}, "status": {"replicas": 1}})
    reading = replica_reading(lambda: stored, deployment="consumer", source="recorder")

    assert list(reading(7)) == [
        ReplicaSample(at=7, source="recorder", spec=2, current=1, ready=0, available=0)
    ]


def test_no_deployment_is_not_zero_replicas() -> None:
    """It is a reading that failed."""
    reading = replica_reading(kube, deployment="consumer", source="recorder")

    with pytest.raises(NotReady, match="Deployment consumer"):
        reading(7)


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
    ("current", "total"),
    [({"value": "9001500m"}, 9001.5), ({"averageValue": "2k"}, 8000.0)],
)
def test_a_metrics_total_is_over_all_pods(current: dict[str, str], total: float) -> None:
    """The status holds the total, or the average over the replicas it counted."""
    metric = {"type": "External", "external": {"metric": {"name": "lag"}, "current": current}}
    hpa = HPA | {"status": {"currentReplicas": 4, "currentMetrics": [metric]}}

    assert hpa_sample(hpa, at=7, source="recorder").totals == {"lag": total}


def test_the_conditions_of_the_scaled_objects_of_the_deployment_are_reported() -> None:
    """Another workload's object is not this run's; one that KEDA has not seen has none."""
    target = {"scaleTargetRef": {"name": "consumer"}}
    conditions = [{"type": "Ready", "status": "False", "reason": "TriggerError"}]
    reported = {"metadata": {"name": "a"}, "spec": target, "status": {"conditions": conditions}}
    new = {"metadata": {"name": "b"}, "spec": target}
    other = {"metadata": {"name": "c"}, "spec": {"scaleTargetRef": {"name": "elsewhere"}}}
    stored = kube(None, reported, new, other)

    scalers, known = OwnScalers(), list[str]()
    reading = scaled_object_reading(
        lambda: stored, deployment="consumer", source="recorder", scalers=scalers
    )

    assert list(reading(7)) == [
        ScaledObjectSample(
            at=7,
            source="recorder",
            name="a",
            conditions=["Ready=False TriggerError"],
            tolerance=0.1,
        ),
        ScaledObjectSample(at=7, source="recorder", name="b", conditions=[], tolerance=0.1),
    ]
    for name in ("a", "b", "c"):
        scalers.once_known(("ScaledObject", name), partial(known.append, name))
    assert known == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "targets"),
    [
        ({}, (1000.0, None, 0.2)),
        ({"metricType": "Value"}, (None, 1000.0, 0.2)),
        ({"metadata": {"lagThreshold": "many"}}, (None, None, None)),
    ],
    ids=["of each replica", "of the group", "not a number"],
)
def test_the_targets_of_a_scaled_object_are_reported(
    fields: dict[str, Any], targets: tuple[float | None, ...]
) -> None:
    """They are those of the stored object, so that a policy that replaces another counts."""
    trigger = {"type": "kafka", "metadata": {"lagThreshold": "1000"}, **fields}
    scaled = {
        "metadata": {"name": "a", "annotations": {"lagbench.io/hpa-tolerance": "0.2"}},
        "spec": {"triggers": [trigger]},
    }

    seen = scaled_object_sample(scaled, at=7, source="recorder")

    assert (seen.scales_at_records, seen.group_target_records, seen.tolerance) == targets


def test_a_formula_leaves_no_target_of_a_trigger() -> None:
    """With scalingModifiers no number of records decides."""
    trigger = {"type": "kafka", "name": "lag", "metadata": {"lagThreshold": "1000"}}
    modifiers = {"formula": "lag / 10", "target": "1000"}
    spec = {"triggers": [trigger], "advanced": {"scalingModifiers": modifiers}}

    seen = scaled_object_sample({"metadata": {"name": "a"}, "spec": spec}, at=7, source="r")

    assert (seen.scales_at_records, seen.group_target_records) == (None, None)


def test_only_hpas_of_the_deployment_count() -> None:
    """Another workload's HPA is not this run's."""
    other = HPA | {"spec": {"scaleTargetRef": {"name": "elsewhere"}}}
    scalers, known = OwnScalers(), list[str]()
    reading = hpa_reading(
        lambda: kube(None, other, HPA), deployment="consumer", source="r", scalers=scalers
    )

    assert len(list(reading(7))) == 1
    own = ("HorizontalPodAutoscaler", HPA["metadata"]["name"])
    scalers.once_known(own, partial(known.append, "own"))
    assert known == ["own"]


def test_the_hpa_of_a_scaled_object_is_known_without_the_right_to_list_hpas() -> None:
    """KEDA names it in the status, and its events are this run's."""
    scalers, known = OwnScalers(), list[str]()
    found = {
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": {"name": "consumer"}},
        "status": {"hpaName": "keda-hpa-a"},
    }
    reading = scaled_object_reading(
        lambda: kube(None, found), deployment="consumer", source="r", scalers=scalers
    )

    list(reading(7))

    scalers.once_known(("HorizontalPodAutoscaler", "keda-hpa-a"), partial(known.append, "own"))
    assert known == ["own"]


def test_an_hpa_without_status_has_unknown_replicas() -> None:
    """What was not computed yet is None."""
    new = {"metadata": {"name": "h"}, "spec": HPA["spec"]}

    found = hpa_sample(new, at=7, source="recorder")

    assert (found.desired, found.current, found.metrics) == (None, None, [])
