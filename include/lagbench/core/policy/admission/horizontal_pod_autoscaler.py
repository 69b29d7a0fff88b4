"""List the fields of an autoscaling/v2 HorizontalPodAutoscaler; others are rejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.kubernetes import refuse_unknown_fields
from lagbench.core.policy.admission.object_meta import unknown_metadata
from lagbench.core.policy.admission.scaled_object_schema import BEHAVIOR
from lagbench.core.policy.admission.schema import Schema, anything, entry, rows, text, texts, whole
from lagbench.core.policy.admission.schema_check import (
    schema_errors,
    unknown_fields,
    without_nulls,
)
from lagbench.errors import WrongInput

_TARGET = entry(
    "MetricTarget",
    {
        "averageUtilization": whole(),
        "averageValue": Schema("integer,string"),
        "type": text(),
        "value": Schema("integer,string"),
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
_HPA = entry(
    "HorizontalPodAutoscaler",
    {
        "apiVersion": text(),
        "kind": text(),
        "metadata": anything(),
        "spec": entry(
            "HorizontalPodAutoscalerSpec",
            {
                "behavior": BEHAVIOR,
                "maxReplicas": whole(),
                "metrics": rows(_METRIC),
                "minReplicas": whole(),
                "scaleTargetRef": _WORKLOAD,
            },
        ),
        "status": anything(),
    },
)


def refuse_wrong_hpa_fields(manifest: Mapping[str, Any], *, where: str) -> None:
    """Raise ``WrongInput`` for the first field that the kind has not, or has with another type."""
    spec_fields = tuple(_HPA.properties["spec"].properties)
    refuse_unknown_fields(manifest, tuple(_HPA.properties), where=where, field="policy")
    refuse_unknown_fields(manifest.get("spec"), spec_fields, where=where, field="spec")
    metadata = manifest.get("metadata")
    unknown = unknown_fields(manifest, _HPA)
    if isinstance(metadata, Mapping):
        unknown = [*unknown_metadata(metadata), *unknown]
    if unknown:
        raise WrongInput(
            where=where,
            field=unknown[0],
            value="(given)",
            allowed="the fields of autoscaling/v2; the API server rejects unknown ones",
        )
    for error in schema_errors(without_nulls(manifest), _HPA, ""):
        is_quantity = error.value == "number" and error.field.rpartition(".")[2] in _QUANTITIES
        if error.is_type_error and not is_quantity:
            raise WrongInput(
                where=where,
                field=error.field.removeprefix("."),
                value=error.value,
                allowed=error.detail.removeprefix("."),
            )
