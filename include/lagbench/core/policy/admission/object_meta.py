"""``metadata`` as the API server reads it: known fields, names, labels, annotations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lagbench.core.kubernetes import go_quote
from lagbench.core.policy.admission.field_error import FieldError
from lagbench.core.policy.admission.qualified_names import (
    label_value_problems,
    qualified_name_problems,
    subdomain_problems,
)
from lagbench.core.policy.admission.schema import anything, entry, flag, rows, text, texts, whole
from lagbench.core.policy.admission.schema_check import json_type, unknown_fields

METADATA = entry(
    "ObjectMeta",
    {
        "annotations": texts(),
        "creationTimestamp": text(),
        "deletionGracePeriodSeconds": whole(),
        "deletionTimestamp": text(),
        "finalizers": rows(text()),
        "generateName": text(),
        "generation": whole(),
        "labels": texts(),
        "managedFields": rows(anything()),
        "name": text(),
        "namespace": text(),
        "ownerReferences": rows(
            entry(
                "OwnerReference",
                {
                    "apiVersion": text(),
                    "blockOwnerDeletion": flag(),
                    "controller": flag(),
                    "kind": text(),
                    "name": text(),
                    "uid": text(),
                },
            )
        ),
        "resourceVersion": text(),
        "selfLink": text(),
        "uid": text(),
    },
)
_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_TIMES = ("creationTimestamp", "deletionTimestamp")
# What Go reads an instant by, piece for piece; it names the first that is not there.
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_TIME_PIECES = (
    ("2006", r"\d{4}"),
    *(("-", "-"), ("01", r"\d{2}"), ("-", "-"), ("02", r"\d{2}"), ("T", "T")),
    *(("15", r"\d{2}"), (":", ":"), ("04", r"\d{2}"), (":", ":"), ("05", r"\d{2}(\.\d+)?")),
    ("Z07:00", r"Z|[+-]\d{2}:\d{2}"),
)


_EXPORTED = (
    *("creationTimestamp", "deletionTimestamp", "generation", "managedFields"),
    *("resourceVersion", "selfLink", "uid"),
)


def exported_fields(manifest: Mapping[str, Any]) -> list[str]:
    """Return the paths of fields that a cluster has added to an object that was read from it."""
    metadata = manifest.get("metadata")
    found = [name for name in _EXPORTED if isinstance(metadata, Mapping) and metadata.get(name)]
    return [f"metadata.{name}" for name in found] + (["status"] if manifest.get("status") else [])


def without_export(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object as its author wrote it, without those fields."""
    kept = {key: value for key, value in manifest.items() if key != "status"}
    if isinstance(metadata := manifest.get("metadata"), Mapping):
        kept["metadata"] = {k: value for k, value in metadata.items() if k not in _EXPORTED}
    return kept


def unknown_metadata(metadata: Any) -> list[str]:
    """Return the paths of fields that metadata does not have."""
    return unknown_fields(metadata, METADATA, "metadata")


def undecodable_metadata(metadata: Any) -> str | None:
    """Return what Go's decoder says of the first value of another type; None: it decodes."""
    if not isinstance(metadata, Mapping):
        return f"json: cannot unmarshal {_go_type(metadata)} into Go value of type v1.ObjectMeta"
    for name, value in metadata.items():
        schema = METADATA.properties.get(name)
        if schema is None or value is None:
            continue
        unreadable = _unreadable_time(value) if name in _TIMES and isinstance(value, str) else None
        if unreadable is not None:
            return unreadable
        wrong = value if json_type(value) != schema.type else None
        if wrong is None and schema.values is not None:
            wrong = next((v for v in value.values() if not isinstance(v, str | None)), None)
        if wrong is not None:
            kind = {"object": "map[string]string", "array": "[]string", "integer": "int64"}
            wanted = "string" if schema.values is not None and isinstance(value, Mapping) else None
            wanted = wanted or kind.get(schema.type, schema.type)
            return (
                f"json: cannot unmarshal {_go_type(wrong)} into Go struct field "
                f"ObjectMeta.{name} of type {wanted}"
            )
    return None


def metadata_errors(metadata: Mapping[str, Any]) -> list[FieldError]:
    """Return what is wrong with name, labels, annotations, owners and finalizers."""
    name = metadata.get("name") or ""
    if not name and not metadata.get("generateName"):
        detail = "name or generateName is required"
        errors = [FieldError("Required value", "metadata.name", detail)]
    else:
        errors = _invalid("name", name, subdomain_problems(name)) if name else []
    for key, value in (metadata.get("labels") or {}).items():
        errors += _invalid("labels", key, qualified_name_problems(key))
        errors += _invalid("labels", value or "", label_value_problems(value or ""))
    for key in metadata.get("annotations") or {}:
        errors += _invalid("annotations", key, qualified_name_problems(key.lower()))
    for owner in metadata.get("ownerReferences") or []:
        errors += _owner_errors(owner)
    for finalizer in metadata.get("finalizers") or []:
        errors += _invalid("finalizers", finalizer, qualified_name_problems(finalizer))
    return errors


def finalizer_warnings(metadata: Mapping[str, Any]) -> list[str]:
    """Return the API server's advice on finalizers whose name might be someone else's too."""
    return [
        f"metadata.finalizers: {go_quote(name)}: prefer a domain-qualified finalizer name"
        f"{' including a path (/)' if '.' in name else ''} to avoid accidental conflicts with "
        "other finalizer writers"
        for name in sorted(set(metadata.get("finalizers") or []))
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _owner_errors(owner: Mapping[str, Any]) -> Iterator[FieldError]:
    for key, problem in (
        ("apiVersion", "version must not be empty"),
        *((key, "must not be empty") for key in ("kind", "name", "uid")),
    ):
        if not owner.get(key):
            yield FieldError("Invalid value", f"metadata.ownerReferences.{key}", problem, "")


def _invalid(field: str, value: str, problems: Iterable[str]) -> list[FieldError]:
    path = f"metadata.{field}"
    return [FieldError("Invalid value", path, problem, value) for problem in problems]


def _unreadable_time(text: str) -> str | None:
    rest = text
    for piece, pattern in _TIME_PIECES:
        found = re.match(pattern, rest)
        if found is None:
            return (
                f"parsing time {go_quote(text)} as {go_quote(_TIME_LAYOUT)}: cannot parse "
                f"{go_quote(rest)} as {go_quote(piece)}"
            )
        rest = rest[found.end() :]
    extra = f"parsing time {go_quote(text)}: extra text: {go_quote(rest)}"
    return extra if rest else None


def _go_type(value: Any) -> str:
    """Return Go's name of a JSON type in a decoding error."""
    names = {"boolean": "bool", "integer": "number"}
    found = json_type(value)
    return names.get(found, found)
