"""Answer a ScaledObject that is sent to the API server: schema first, then webhook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from lagbench.core.hpa.controller_flags import GATES, has_gate, version_of
from lagbench.core.hpa.hpa_object import parse_behavior
from lagbench.core.keda.object.scaled_object_rules import BEHAVIOR, SCALED_OBJECT
from lagbench.core.keda.object.scaled_object_spec import API_VERSION, KIND
from lagbench.core.kubernetes_values import parse_milli
from lagbench.core.object_meta import METADATA, metadata_refusals, odd_finalizers
from lagbench.core.object_schema import (
    QUANTITY,
    Refusal,
    Schema,
    anything,
    entry,
    json_value,
    known_fields,
    overflows,
    rows,
    schema_refusals,
    text,
    texts,
    unknown_fields,
    whole,
)
from lagbench.core.policy.admission.webhook import ClusterView, webhook_refusals, webhook_warnings
from lagbench.errors import WrongInput

FieldValidation = Literal["Strict", "Warn", "Ignore"]

RefusedBy = Literal["apiserver", "webhook"]


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to a create or update; a rejection can also have warnings.

    ``code`` is that of HTTP. Of the webhook's ``refusals`` a real one gives one, in random order.
    """

    code: int
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    refused_by: RefusedBy | None = None

    @property
    def is_accepted(self) -> bool:
        """Return whether the object is stored."""
        return self.refused_by is None


def admit(
    manifest: Mapping[str, Any],
    cluster: ClusterView,
    *,
    field_validation: FieldValidation = "Strict",
    is_dry_run: bool = False,
) -> Admission:
    """Return what the API server and KEDA's webhook answer.

    ``field_validation``: kubectl requests Strict (unknown fields are errors), a bare request gets
    Warn, in which the unknown fields are dropped.
    """
    version, kind = manifest.get("apiVersion"), manifest.get("kind")
    if version != API_VERSION:
        return not_served(f"the API server serves no {KIND} of {version}", API_VERSION)
    if kind != KIND:
        return refused(400, Refusal("not-a-scaled-object", "kind", f"{kind} is not a {KIND}"))
    unreadable = unreadable_metadata(manifest)
    if unreadable is not None:
        return unreadable
    unknown = unknown_of(manifest, SCALED_OBJECT)
    if unknown and field_validation == "Strict":
        return refused(400, *unknown)
    answer = _decoded(manifest, cluster, is_dry_run=is_dry_run)
    notes = (f'unknown field "{item.field}"' for item in unknown if field_validation == "Warn")
    return replace(answer, warnings=(*notes, *answer.warnings))


def stored_form(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the API server stores of a manifest that it accepts.

    Nulls and unknown fields are dropped, the schema's one default is filled in.
    """
    given = json_value(manifest)
    stored = {
        **known_fields(given, SCALED_OBJECT),
        "metadata": known_fields(given.get("metadata") or {}, METADATA),
    }
    fallback = stored["spec"].get("fallback")
    if fallback is not None:
        stored["spec"]["fallback"] = {"behavior": "static", **fallback}
    return stored


def not_served(text: str, instead: str) -> Admission:
    """Return the answer to a version that the API server does not have."""
    return refused(404, Refusal("api-version", "apiVersion", text, instead))


def refused(code: int, *refusals: Refusal, by: RefusedBy = "apiserver") -> Admission:
    """Return a rejection."""
    return Admission(code, refusals, refused_by=by)


def unknown_of(manifest: Mapping[str, Any], schema: Schema) -> list[Refusal]:
    """Return the fields that neither metadata nor the schema has, sorted by their paths."""
    metadata = unknown_fields(manifest.get("metadata") or {}, METADATA, "metadata")
    unknown = [*metadata, *unknown_fields(manifest, schema)]
    return sorted(unknown, key=lambda item: item.field)


def unreadable_metadata(manifest: Mapping[str, Any]) -> Admission | None:
    """Return the answer to metadata of other types, which nothing decodes; None: it decodes."""
    given = json_value({"metadata": manifest.get("metadata") or {}})["metadata"]
    wrong = list(schema_refusals(given, METADATA, "metadata"))
    return refused(400, *wrong) if wrong else None


def _decoded(manifest: Mapping[str, Any], cluster: ClusterView, *, is_dry_run: bool) -> Admission:
    """Return the answer to a manifest whose unknown fields have been dealt with."""
    # The status is a subresource: it is dropped from what a person writes.
    given = json_value({key: value for key, value in manifest.items() if key != "status"})
    metadata = given.get("metadata") or {}
    names = [(item.get("metadata") or {}).get("name") for item in cluster.scaled_objects]
    if metadata.get("resourceVersion") and metadata.get("name") not in names:
        text = "resourceVersion should not be set on objects to be created"
        return refused(500, Refusal("copied-out", "metadata.resourceVersion", text, "leave it out"))
    errors = [*metadata_refusals(metadata), *schema_refusals(given, SCALED_OBJECT)]
    if errors:
        return refused(422, *errors)
    beyond = next(overflows(given, SCALED_OBJECT), None)
    if beyond is not None:
        return refused(400, beyond, by="webhook")
    reasons = webhook_refusals(given, cluster, is_dry_run=is_dry_run)
    own = [item for item in reasons if item.code == "replica-counts" and "min" in item.field]
    if own:  # a rule of the schema, which compares the two bounds itself
        return refused(422, *own)
    if reasons:
        # A refusal for want of an object keeps the code of the failed request.
        code = 404 if reasons[0].code == "target-missing" else 403
        return refused(code, *reasons, by="webhook")
    advice = [
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name'
        f"{' including a path (/)' if '.' in name else ''} to avoid accidental conflicts with "
        "other finalizer writers"
        for name in odd_finalizers(metadata)
    ]
    return Admission(201, warnings=(*webhook_warnings(given), *advice))


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

_OF_BOTH = {"maxReplicas": whole(1), "minReplicas": whole(), "scaleTargetRef": _WORKLOAD}

_SPECS = {
    "autoscaling/v1": {**_OF_BOTH, "targetCPUUtilizationPercentage": whole()},
    "autoscaling/v2": {
        **_OF_BOTH,
        "behavior": entry({"scaleUp": _SIDE, "scaleDown": _SIDE}),
        "metrics": rows(_METRIC),
    },
}


def admit_hpa(manifest: Mapping[str, Any], kubernetes: str | None = None) -> Admission:
    """Return what the API server answers to a client that wants strict validation.

    :param kubernetes: its version; None: the one that the object names.
    """
    version = str(manifest.get("apiVersion"))
    if version not in _SERVED:
        since = ", since Kubernetes 1.26" if version.startswith("autoscaling/v2beta") else ""
        return not_served(
            f"the API server serves no {HPA_KIND} of this version{since}", _SERVED[-1]
        )
    unreadable = unreadable_metadata(manifest)
    if unreadable is not None:
        return unreadable
    kubernetes = kubernetes or version_of(manifest)
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
    errors = errors or [*overflows(given, schema)]
    errors = errors or [*_rules(stored_hpa(given, kubernetes)["spec"], kubernetes)]
    return refused(422, *errors) if errors else Admission(201)


def stored_hpa(manifest: Mapping[str, Any], kubernetes: str | None = None) -> dict[str, Any]:
    """Return an accepted HPA as the API server serves it in v2, without its status.

    v1 is v2 with one metric on CPU; without a percentage it has the default metric. An API server
    whose gate HPAConfigurableTolerance is off drops the tolerances unread.

    :param kubernetes: its version; None: the one that the object names.
    """
    given = json_value({**manifest, "status": None})
    spec = dict(given.get("spec") or {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if not has_gate("HPAConfigurableTolerance", kubernetes or version_of(manifest)):
        for rules in (spec.get("behavior") or {}).values():
            rules.pop("tolerance", None)
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


def _rules(spec: Mapping[str, Any], kubernetes: str) -> Iterator[Refusal]:
    """Yield the rules of a version that a spec of the right shape breaks."""
    least, replicas = 1 - has_gate("HPAScaleToZero", kubernetes), spec.get("minReplicas", 1)
    if replicas < least:
        since = f"0 needs Kubernetes {GATES['HPAScaleToZero']} or newer, here {kubernetes}"
        yield Refusal("schema", "spec.minReplicas", f"must be at least {least}", since)
    if spec["maxReplicas"] < replicas:
        text = "must be at least minReplicas"
        yield Refusal("schema", "spec.maxReplicas", text)
    kinds = {metric["type"] for metric in spec.get("metrics") or ()}
    if replicas == 0 and kinds.isdisjoint({"External", "Object"}):
        text = "must have an External or Object metric: minReplicas is 0"
        yield Refusal("schema", "spec.metrics", text)
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
