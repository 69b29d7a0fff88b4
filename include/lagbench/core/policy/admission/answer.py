"""Answer a ScaledObject that is sent to the API server: schema first, then webhook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from lagbench.core.keda.object.rules import SCALED_OBJECT
from lagbench.core.keda.object.spec import API_VERSION, KIND
from lagbench.core.kubernetes.json_value import json_value
from lagbench.core.kubernetes.object_meta import METADATA, metadata_refusals, odd_finalizers
from lagbench.core.kubernetes.object_schema import (
    Refusal,
    Schema,
    known_fields,
    overflows,
    schema_refusals,
    unknown_fields,
)
from lagbench.core.policy.admission.cluster import ClusterView
from lagbench.core.policy.admission.webhook import webhook_refusals, webhook_warnings

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
        return refused(400, Refusal("not-a-scaled-object", "kind", f"{kind} is no {KIND}"))
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
        for name in odd_finalizers(metadata)
    ]
    return Admission(201, warnings=(*webhook_warnings(given), *advice))
