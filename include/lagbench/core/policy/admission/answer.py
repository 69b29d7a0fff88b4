"""Answer a ScaledObject that is sent to the API server: schema first, then webhook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from lagbench.core.keda.object import DEFAULT_MAX_REPLICAS
from lagbench.core.kubernetes import json_value
from lagbench.core.policy.admission.cluster import ClusterView
from lagbench.core.policy.admission.field_error import SKIPPED_RULES, FieldError, aggregate
from lagbench.core.policy.admission.object_meta import (
    METADATA,
    finalizer_warnings,
    metadata_errors,
    undecodable_metadata,
    unknown_metadata,
)
from lagbench.core.policy.admission.scaled_object_schema import SCALED_OBJECT
from lagbench.core.policy.admission.schema_check import (
    known_fields,
    overflows,
    schema_errors,
    unknown_fields,
)
from lagbench.core.policy.admission.webhook import NOT_FOUND, webhook_refusals, webhook_warnings

API_VERSION, KIND = "keda.sh/v1alpha1", "ScaledObject"
FieldValidation = Literal["Strict", "Warn", "Ignore"]
RefusedBy = Literal["apiserver", "webhook"]
NOT_SERVED = "404 page not found\n"
_WEBHOOK = 'admission webhook "vscaledobject.kb.io" denied the request: '


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to a create or update.

    ``messages`` are the possible texts of a rejection: the webhook reports the first problem, in
    random order. ``field_errors`` are the API server's own, one per field. A rejection can also
    have warnings.
    """

    code: int
    messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refused_by: RefusedBy | None = None
    field_errors: tuple[FieldError, ...] = ()
    reasons: tuple[str, ...] = ()

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
    if manifest.get("apiVersion") != API_VERSION:
        return _refused(404, NOT_SERVED)
    if manifest.get("kind") != KIND:
        found = manifest.get("kind")
        return _refused(400, f"the object provided is unrecognized (kind {found!r})")
    unreadable = undecodable_metadata(manifest.get("metadata") or {})
    if unreadable is not None:
        return _refused(400, f"{_cannot_handle()}{unreadable}")
    unknown = [
        *unknown_metadata(manifest.get("metadata") or {}),
        *unknown_fields(manifest, SCALED_OBJECT),
    ]
    notes = tuple(f'unknown field "{path}"' for path in unknown)
    if notes and field_validation == "Strict":
        message = f"{_cannot_handle()}strict decoding error: {', '.join(notes)}"
        return _refused(400, message, reasons=notes)
    answer = _decoded(manifest, cluster, is_dry_run=is_dry_run)
    warnings = notes if field_validation == "Warn" else ()
    return replace(answer, warnings=(*warnings, *answer.warnings))


def stored_form(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the API server stores of a manifest that it accepts.

    Nulls and unknown fields are dropped, the schema's one default is filled in.
    """
    known = {
        **known_fields(json_value(manifest), SCALED_OBJECT),
        "metadata": known_fields(json_value(manifest.get("metadata") or {}), METADATA),
    }
    return _defaulted(known)


def _decoded(manifest: Mapping[str, Any], cluster: ClusterView, *, is_dry_run: bool) -> Admission:
    """Return the answer to a manifest whose unknown fields have been dealt with."""
    metadata = manifest.get("metadata") or {}
    is_update = any(_is_named(item, metadata.get("name")) for item in cluster.scaled_objects)
    if metadata.get("resourceVersion") and not is_update:
        return _refused(500, "resourceVersion should not be set on objects to be created")
    # The status is a subresource: it is dropped from what a person writes.
    written = {key: value for key, value in manifest.items() if key != "status"}
    decoded = _defaulted(json_value(written))
    errors = [
        *metadata_errors(decoded.get("metadata") or {}),
        *schema_errors(_defaulted(json_value(written, keep_floats=True)), SCALED_OBJECT, ""),
    ]
    texts = [str(error) for error in errors]
    if any(error.is_blocking for error in errors):
        texts.append(SKIPPED_RULES)
    else:
        rules = list(_rules(decoded["spec"]))
        errors, texts = errors + rules, texts + [str(error) for error in rules]
    if errors:
        name = (decoded.get("metadata") or {}).get("name") or ""
        message = f'{KIND}.keda.sh "{name}" is invalid: {aggregate(texts)}'
        return Admission(422, (message,), refused_by="apiserver", field_errors=tuple(errors))
    return _webhook(decoded, cluster, is_dry_run=is_dry_run)


def _webhook(decoded: Mapping[str, Any], cluster: ClusterView, *, is_dry_run: bool) -> Admission:
    overflow = next(overflows(decoded, SCALED_OBJECT, ""), None)
    if overflow is not None:
        message = f"{_WEBHOOK}{overflow}"
        return Admission(400, (message,), refused_by="webhook", reasons=(overflow,))
    reasons = webhook_refusals(decoded, cluster, is_dry_run=is_dry_run)
    if reasons:
        messages = tuple(f"{_WEBHOOK}{reason}" for reason in reasons)
        # A refusal for want of an object keeps the code of the failed request.
        code = 404 if reasons[0].endswith(NOT_FOUND) else 403
        return Admission(code, messages, refused_by="webhook", reasons=tuple(reasons))
    warnings = (*webhook_warnings(decoded), *finalizer_warnings(decoded["metadata"]))
    return Admission(201, warnings=warnings)


def _is_named(item: Mapping[str, Any], name: Any) -> bool:
    return name is not None and (item.get("metadata") or {}).get("name") == name


def _refused(code: int, message: str, reasons: tuple[str, ...] = ()) -> Admission:
    return Admission(code, (message,), refused_by="apiserver", reasons=reasons or (message,))


def _cannot_handle() -> str:
    return f'{KIND} in version "v1alpha1" cannot be handled as a {KIND}: '


def _defaulted(manifest: dict[str, Any]) -> dict[str, Any]:
    """Fill in the one default of the schema."""
    spec = manifest.get("spec")
    fallback = spec.get("fallback") if isinstance(spec, Mapping) else None
    if isinstance(spec, Mapping) and isinstance(fallback, Mapping):
        filled = {"behavior": "static", **fallback}
        return {**manifest, "spec": {**spec, "fallback": filled}}
    return manifest


def _rules(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield what the schema's own rule rejects (x-kubernetes-validations)."""
    maximum = spec.get("maxReplicaCount", DEFAULT_MAX_REPLICAS)
    if spec.get("minReplicaCount", 0) > maximum:
        detail = "minReplicaCount must be less than or equal to maxReplicaCount"
        yield FieldError("Invalid value", "spec", detail, "object")
