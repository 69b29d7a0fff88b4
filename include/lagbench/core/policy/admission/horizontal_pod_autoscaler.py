"""Answer a HorizontalPodAutoscaler as the API server of Kubernetes 1.34 does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lagbench.core.hpa.behavior import parse_behavior
from lagbench.core.keda.object.rules import BEHAVIOR
from lagbench.core.kubernetes.json_value import json_value
from lagbench.core.kubernetes.object_meta import metadata_refusals
from lagbench.core.kubernetes.object_schema import (
    QUANTITY,
    Refusal,
    Schema,
    anything,
    entry,
    overflows,
    rows,
    schema_refusals,
    text,
    texts,
    whole,
)
from lagbench.core.kubernetes.quantity import parse_milli
from lagbench.core.policy.admission.answer import (
    Admission,
    not_served,
    refused,
    unknown_of,
    unreadable_metadata,
)
from lagbench.errors import WrongInput

HPA_KIND, _SERVED = "HorizontalPodAutoscaler", ("autoscaling/v1", "autoscaling/v2")
# Of each type of metric: its field, and the two targets of which one must be there; True: not both.
_SOURCES = {
    "Object": ("object", "averageValue", "value", False),
    "External": ("external", "averageValue", "value", True),
    "Pods": ("pods", "averageValue", "averageValue", False),
    "Resource": ("resource", "averageUtilization", "averageValue", True),
    "ContainerResource": ("containerResource", "averageUtilization", "averageValue", True),
}
_NAME = text(minLength=1, pattern=r"(?!\.{1,2}$)[^/%]*", description="a part of a URL's path")
_WORKLOAD = entry({"apiVersion": text(), "kind": _NAME, "name": _NAME}, "kind", "name")
_TARGET = entry(
    {
        "averageUtilization": whole(1),
        "averageValue": QUANTITY,
        "type": text(enum=("Utilization", "Value", "AverageValue")),
        "value": QUANTITY,
    },
    "type",
)
_SELECTOR = entry({"matchExpressions": rows(anything()), "matchLabels": texts()})
_METRIC_NAME = entry({"name": _NAME, "selector": _SELECTOR}, "name")
_OF_METRIC = {"metric": _METRIC_NAME, "target": _TARGET}
_CONTAINER_RESOURCE = text(
    pattern=r"cpu|memory|ephemeral-storage|hugepages-.+|[^/]+/[^/]+",
    description="a standard resource for containers",
)
_CONTAINER = text(
    minLength=1,
    pattern=r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
    description="a container's name: a label of RFC 1123",
)
_METRIC = entry(
    {
        "containerResource": entry(
            {"container": _CONTAINER, "name": _CONTAINER_RESOURCE, "target": _TARGET},
            "container",
            "name",
            "target",
        ),
        "external": entry(_OF_METRIC, *_OF_METRIC),
        "object": entry({"describedObject": _WORKLOAD, **_OF_METRIC}, *_OF_METRIC),
        "pods": entry(_OF_METRIC, *_OF_METRIC),
        "resource": entry({"name": text(minLength=1), "target": _TARGET}, "name", "target"),
        "type": text(enum=tuple(_SOURCES)),
    },
    "type",
)
_RULES = BEHAVIOR["properties"]["scaleUp"]["properties"]
_SIDE = entry({**_RULES, "policies": {**_RULES["policies"], "minItems": 1}, "tolerance": QUANTITY})
_OF_BOTH = {"maxReplicas": whole(1), "minReplicas": whole(1), "scaleTargetRef": _WORKLOAD}
_SPECS = {
    "autoscaling/v1": {**_OF_BOTH, "targetCPUUtilizationPercentage": whole()},
    "autoscaling/v2": {
        **_OF_BOTH,
        "behavior": entry({"scaleUp": _SIDE, "scaleDown": _SIDE}),
        "metrics": rows(_METRIC),
    },
}


def admit_hpa(manifest: Mapping[str, Any]) -> Admission:
    """Return what the API server answers to a client that wants strict validation."""
    version = str(manifest.get("apiVersion"))
    if version not in _SERVED:
        since = ", since Kubernetes 1.26" if version.startswith("autoscaling/v2beta") else ""
        return not_served(
            f"the API server serves no {HPA_KIND} of this version{since}", _SERVED[-1]
        )
    unreadable = unreadable_metadata(manifest)
    if unreadable is not None:
        return unreadable
    schema = _schema(version)
    unknown = unknown_of(manifest, schema)
    if unknown:
        instead = f"apiVersion: {_SERVED[-1]}, which has it"
        newer = ("spec.metrics", "spec.behavior")
        return refused(
            400, *(replace(u, instead=instead) if u.field in newer else u for u in unknown)
        )
    given = json_value({**manifest, "status": None})
    errors = [*metadata_refusals(given.get("metadata") or {}), *schema_refusals(given, schema)]
    errors = errors or [*overflows(given, schema)] or list(_rules(stored_hpa(given)["spec"]))
    return refused(422, *errors) if errors else Admission(201)


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
    return {**given, "apiVersion": _SERVED[-1], "spec": spec}


def _schema(version: str) -> Schema:
    return entry(
        {
            **dict.fromkeys(("apiVersion", "kind"), text()),
            **dict.fromkeys(("metadata", "status"), anything()),
            "spec": entry(_SPECS[version], "maxReplicas", "scaleTargetRef"),
        },
        "spec",
    )


def _rules(spec: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield the rules between fields that a spec of the right shape breaks."""
    if spec["maxReplicas"] < spec.get("minReplicas", 1):
        text = "must be at least minReplicas"
        yield Refusal("schema", "spec.maxReplicas", text)
    target, field = spec["scaleTargetRef"], "spec.scaleTargetRef.apiVersion"
    version = target.get("apiVersion") or ""
    # The one kind of the core group that has replicas needs no group.
    if version.count("/") != 1 and target["kind"] != "ReplicationController":
        yield Refusal("schema", field, "must be GROUP/VERSION", "apps/v1")
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric(metric, f"spec.metrics[{index}]")
    try:
        parse_behavior(spec.get("behavior"), where="HPA", field="spec.behavior")
    except WrongInput as error:
        yield Refusal("schema", error.field, error.allowed)


def _metric(metric: Mapping[str, Any], field: str) -> Iterator[Refusal]:
    source, one, other, is_exclusive = _SOURCES[metric["type"]]
    if source not in metric:
        yield Refusal("schema", f"{field}.{source}", "required, and absent")
        return
    for name in metric:
        if name not in {"type", source}:
            yield Refusal("schema", f"{field}.{name}", f"beside {source}", "leave it out")
    target, place = metric[source]["target"], f"{field}.{source}.target"
    for key in ("value", "averageValue"):
        if key in target and parse_milli(target[key], where="HPA", field=key) <= 0:
            yield Refusal("schema", f"{place}.{key}", "must be above 0")
    if one not in target and other not in target:
        yield Refusal("schema", f"{place}.{one}", f"one of {one} and {other} is required")
    elif is_exclusive and one in target and other in target:
        yield Refusal("schema", f"{place}.{other}", f"beside {one}", "leave one out")
