"""Answer a HorizontalPodAutoscaler as the API server of Kubernetes 1.34 does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.kubernetes import json_value
from lagbench.core.policy.admission.answer import NOT_SERVED, Admission
from lagbench.core.policy.admission.field_error import FieldError
from lagbench.core.policy.admission.hpa_rules import hpa_errors
from lagbench.core.policy.admission.object_meta import (
    metadata_errors,
    undecodable_metadata,
    unknown_metadata,
)
from lagbench.core.policy.admission.scaled_object_schema import BEHAVIOR, QUANTITY
from lagbench.core.policy.admission.schema import Schema, anything, entry, rows, text, texts, whole
from lagbench.core.policy.admission.schema_check import overflows, schema_errors, unknown_fields

KIND = "HorizontalPodAutoscaler"
_AMOUNT = Schema("integer,string", pattern=QUANTITY)
_TARGET = entry(
    "MetricTarget",
    {
        "averageUtilization": whole(),
        "averageValue": _AMOUNT,
        "type": text(),
        "value": _AMOUNT,
    },
)
_SELECTOR = entry("LabelSelector", {"matchExpressions": rows(anything()), "matchLabels": texts()})
_METRIC_NAME = entry("MetricIdentifier", {"name": text(), "selector": _SELECTOR})
_WORKLOAD = entry(
    "CrossVersionObjectReference", {"apiVersion": text(), "kind": text(), "name": text()}
)
_METRIC = entry(
    "MetricSpec",
    {
        "containerResource": entry(
            "ContainerResourceMetricSource",
            {"container": text(), "name": text(), "target": _TARGET},
        ),
        "external": entry("ExternalMetricSource", {"metric": _METRIC_NAME, "target": _TARGET}),
        "object": entry(
            "ObjectMetricSource",
            {"describedObject": _WORKLOAD, "metric": _METRIC_NAME, "target": _TARGET},
        ),
        "pods": entry("PodsMetricSource", {"metric": _METRIC_NAME, "target": _TARGET}),
        "resource": entry("ResourceMetricSource", {"name": text(), "target": _TARGET}),
        "type": text(),
    },
)
_QUANTITIES = ("averageValue", "value", "tolerance")
"""The API server takes a number for them; KEDA's schema of ``behavior`` does not."""
_OF_BOTH = {"maxReplicas": whole(), "minReplicas": whole(), "scaleTargetRef": _WORKLOAD}
_SPECS = {
    "autoscaling/v1": {**_OF_BOTH, "targetCPUUtilizationPercentage": whole()},
    "autoscaling/v2": {**_OF_BOTH, "behavior": BEHAVIOR, "metrics": rows(_METRIC)},
}


def hpa_schema(manifest: Mapping[str, Any]) -> Schema:
    """Return the fields of the manifest's version, those of v2 if it is not served."""
    spec = _SPECS.get(str(manifest.get("apiVersion"))) or _SPECS["autoscaling/v2"]
    return entry(
        KIND,
        {
            "apiVersion": text(),
            "kind": text(),
            "metadata": anything(),  # see object_meta
            "spec": entry("HorizontalPodAutoscalerSpec", spec),
            "status": anything(),
        },
    )


def admit_hpa(manifest: Mapping[str, Any]) -> Admission:
    """Return what the API server answers to a client that wants strict validation."""
    if str(manifest.get("apiVersion")) not in _SPECS:
        return _refused(404, NOT_SERVED)
    metadata = manifest.get("metadata") or {}
    unreadable = undecodable_metadata(metadata)
    if unreadable is not None:
        return _refused(400, unreadable)
    schema = hpa_schema(manifest)
    unknown = [*unknown_metadata(metadata), *unknown_fields(manifest, schema)]
    if unknown:
        return _refused(400, *(f'unknown field "{path}"' for path in unknown))
    given = json_value({**manifest, "status": None})
    # Go's decoder stops at the first value that it cannot read.
    for error in schema_errors(given, schema, ""):
        is_quantity = error.value == "number" and error.field.rpartition(".")[2] in _QUANTITIES
        if not is_quantity and error.kind == "Invalid value" and error.field != "<nil>":
            return _invalid(400, error)
    overflow = next(overflows(given, schema, ""), None)
    if overflow is not None:
        return _refused(400, overflow)
    stored = stored_hpa(given)
    errors = [*metadata_errors(stored.get("metadata") or {}), *hpa_errors(stored["spec"])]
    return _invalid(422, *errors) if errors else Admission(201)


def stored_hpa(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return an accepted HPA as the API server serves it in v2, without its status.

    v1 is v2 with one metric on CPU; without a percentage it has the default metric.
    """
    given = json_value({**manifest, "status": None})
    spec = dict(given.get("spec") or {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return {**given, "apiVersion": "autoscaling/v2", "spec": spec}


def _refused(code: int, *reasons: str) -> Admission:
    return Admission(code, reasons[:1], refused_by="apiserver", reasons=reasons)


def _invalid(code: int, *errors: FieldError) -> Admission:
    texts = tuple(map(str, errors))
    return Admission(code, texts[:1], refused_by="apiserver", field_errors=errors)
