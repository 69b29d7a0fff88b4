"""An answer of the API server or the webhook as findings: field, value, what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from lagbench.core.kubernetes import quoted_form
from lagbench.core.policy.admission import (
    NOT_FOUND,
    NOT_SERVED,
    SCALED_OBJECT,
    Admission,
    FieldError,
    Schema,
    hpa_schema,
)
from lagbench.core.policy.kinds import POLICY_VERSIONS
from lagbench.core.policy.review.finding import NOT_SHOWN, Finding, shown

_UNKNOWN = re.compile(r'unknown field "(.+)"')
_UNDECODABLE = re.compile(
    r"cannot unmarshal .* into Go struct field (?:\w+\.(spec\.\S+)|ObjectMeta\.(\S+)) of type (\S+)"
)
# Near enough in meaning, but not in spelling.
_MEANT = {
    "minReplicas": "minReplicaCount",
    "maxReplicas": "maxReplicaCount",
    "idleReplicas": "idleReplicaCount",
    "cooldown": "cooldownPeriod",
    "stabilisationWindowSeconds": "stabilizationWindowSeconds",
}
_TARGET, _TRIGGERS = "spec.scaleTargetRef", "spec.triggers"
_HPA_NAME = "spec.advanced.horizontalPodAutoscalerConfig.name"
# The webhook's reasons by what they contain: code, field, what to write instead.
_WEBHOOK_REASONS = (
    ("v1.ObjectMeta", "schema", "metadata", "a mapping with a name"),
    ("doesn't have the", "request-missing", _TARGET, "resources.requests of that container"),
    ("scale to zero", "resource-only-to-zero", "spec.minReplicaCount", "1, or another trigger"),
    ("MinReplicaCount=", "replica-counts", "spec.minReplicaCount", "idle < min <= max"),
    ("useCachedMetrics", "never-cached", _TRIGGERS, "leave useCachedMetrics out there"),
    ("triggerName", "trigger-name-twice", _TRIGGERS, "a unique name for each trigger"),
    ("managed by the hpa", "other-autoscaler", _TARGET, "delete that HPA first"),
    ("ownership transfer", "other-autoscaler", _HPA_NAME, "the name of that HPA"),
    ("managed by the ScaledObject", "other-autoscaler", _TARGET, "one ScaledObject per workload"),
    ("ScalingModifiers", "formula", "spec.advanced.scalingModifiers", "names of the triggers"),
    ("scalingModifiers", "formula", "spec.advanced.scalingModifiers", "a formula"),
    ("fallback", "fallback-without-metric", "spec.fallback", "a trigger that KEDA polls"),
    ("scaledobject name", "name-too-long", "metadata.name", "at most 63 characters"),
    ("HPA name", "name-too-long", _HPA_NAME, "at most 63 characters"),
    ("no matches for kind", "target-kind", f"{_TARGET}.kind", "a kind of this cluster"),
    ("unexpected GroupVersion", "target-kind", f"{_TARGET}.apiVersion", "GROUP/VERSION"),
    (NOT_FOUND, "target-missing", _TARGET, "apply the workload first"),
)


def refusal_findings(manifest: Mapping[str, Any], answer: Admission) -> list[Finding]:
    """Return one finding for each reason of a refusal; none when it was accepted."""
    if NOT_SERVED in answer.reasons:
        return [_of_version(manifest)]
    if answer.field_errors:
        return [_of_field(manifest, error) for error in answer.field_errors]
    return [_of_reason(manifest, reason) for reason in answer.reasons]


def _of_version(manifest: Mapping[str, Any]) -> Finding:
    kind, version = str(manifest["kind"]), manifest.get("apiVersion")
    is_past = str(version).startswith("autoscaling/v2beta")
    happens = f"the API server serves no {kind} of this version"
    happens += ", since Kubernetes 1.26" if is_past else ""
    written = "(absent)" if version is None else shown(version)
    instead = POLICY_VERSIONS[kind]
    return Finding("refused", "api-version", "apiVersion", written, happens, instead)


def _of_field(manifest: Mapping[str, Any], error: FieldError) -> Finding:
    value, happens = value_at(manifest, error.field), str(error).removeprefix(f"{error.field}: ")
    is_unquoted = error.is_type_error and "of type string" in error.detail
    written = shown(value, error.field)
    instead = quoted_form("…" if written == NOT_SHOWN else value) if is_unquoted else ""
    return Finding("refused", "schema", error.field, written, happens, instead)


def _of_reason(manifest: Mapping[str, Any], reason: str) -> Finding:
    unknown = _UNKNOWN.fullmatch(reason)
    if unknown is not None:
        return _of_unknown_field(manifest, unknown[1])
    undecodable = _UNDECODABLE.search(reason)
    if undecodable is not None:
        path, wanted = undecodable[1] or f"metadata.{undecodable[2]}", undecodable[3]
        value = value_at(manifest, path)
        if isinstance(value, Mapping) and wanted == "string":
            wrong = ((k, item) for k, item in value.items() if not isinstance(item, str | None))
            key, value = next(wrong, ("", value))
            path += f"[{key}]" if key else ""
            wanted = quoted_form(value)
        return Finding("refused", "schema", path, shown(value, path), reason, wanted)
    for part, code, field, instead in _WEBHOOK_REASONS:
        if part in reason:
            return Finding(
                "refused", code, field, shown(value_at(manifest, field), field), reason, instead
            )
    return Finding("refused", "not-a-scaled-object", "kind", shown(manifest.get("kind")), reason)


def _of_unknown_field(manifest: Mapping[str, Any], path: str) -> Finding:
    parent, _, name = path.rpartition(".")
    schema = SCALED_OBJECT if manifest.get("kind") == "ScaledObject" else hpa_schema(manifest)
    known = list(_schema_at(schema, parent).properties)
    meant = _MEANT.get(name)
    if meant is None or meant not in known:
        meant = next(iter(get_close_matches(name, known, n=1, cutoff=0.6)), None)
    happens = "unknown field; a client without strict validation drops it silently"
    instead = meant or (f"one of {', '.join(known)}" if known else "leave it out")
    if path in {"spec.metrics", "spec.behavior"}:
        instead = "apiVersion: autoscaling/v2, which has it"
    return Finding(
        "refused", "unknown-field", path, shown(value_at(manifest, path), path), happens, instead
    )


def _schema_at(schema: Schema, path: str) -> Schema:
    for part in _parts(path):
        below = schema.items if isinstance(part, int) else schema.properties.get(part)
        if below is None:
            return schema
        schema = below
    return schema


def value_at(manifest: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as ``spec.triggers[0].type``; None when there is none."""
    value: Any = manifest
    for part in _parts(path):
        if isinstance(part, int):
            value = value[part] if isinstance(value, list) and part < len(value) else None
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _parts(path: str) -> Iterator[str | int]:
    for part in re.findall(r"[^.\[\]]+|\[\d+\]", path):
        yield int(part[1:-1]) if part.startswith("[") else part
