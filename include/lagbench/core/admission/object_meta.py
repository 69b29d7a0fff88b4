"""``metadata`` as the API server reads it: known fields, names, labels, annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.admission.field_error import FieldError
from lagbench.core.admission.schema import anything, entry, flag, rows, text, texts, whole
from lagbench.core.admission.schema_check import json_type, unknown_fields

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
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = rf"({_NAME_PART})?"
_WORDS = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
_SUBDOMAIN_LENGTH, _LABEL_LENGTH = 253, 63


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
    """Return what is wrong with the name, the labels and the annotations."""
    name = metadata.get("name") or ""
    if not name and not metadata.get("generateName"):
        detail = "name or generateName is required"
        errors = [FieldError("Required value", "metadata.name", detail)]
    else:
        errors = list(_subdomain_errors("metadata.name", name)) if name else []
    for key, value in (metadata.get("labels") or {}).items():
        errors += _qualified_name_errors("metadata.labels", key, key)
        if len(value or "") > _LABEL_LENGTH:
            errors.append(_too_long("metadata.labels", value, _LABEL_LENGTH))
        if not re.fullmatch(_LABEL_VALUE, value or ""):
            detail = f"a valid label must be an empty string or consist of {_WORDS} character"
            example = "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            detail += f" {example}'({_LABEL_VALUE.removeprefix('(').removesuffix(')?')})?')"
            errors.append(FieldError("Invalid value", "metadata.labels", detail, value))
    for key in metadata.get("annotations") or {}:
        errors += _qualified_name_errors("metadata.annotations", key.lower(), key)
    return errors


def _subdomain_errors(field: str, name: str) -> Iterator[FieldError]:
    if len(name) > _SUBDOMAIN_LENGTH:
        yield _too_long(field, name, _SUBDOMAIN_LENGTH)
    if not re.fullmatch(_SUBDOMAIN, name):
        detail = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character (e.g. "
            f"'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )
        yield FieldError("Invalid value", field, detail, name)


def _qualified_name_errors(field: str, key: str, shown: str) -> Iterator[FieldError]:
    *prefix, name = key.split("/")
    if len(prefix) == 1 and not re.fullmatch(_SUBDOMAIN, prefix[0]):
        detail = "prefix part must be a lowercase RFC 1123 subdomain"
        yield FieldError("Invalid value", field, detail, shown)
    if len(name) > _LABEL_LENGTH:
        detail = f"name part must be no more than {_LABEL_LENGTH} bytes"
        yield FieldError("Invalid value", field, detail, shown)
    if len(prefix) > 1 or not re.fullmatch(_NAME_PART, name):
        detail = f"name part must consist of {_WORDS} character"
        yield FieldError("Invalid value", field, detail, shown)


def _too_long(field: str, value: str, limit: int) -> FieldError:
    return FieldError("Invalid value", field, f"must be no more than {limit} bytes", value)


def _go_type(value: Any) -> str:
    """Return Go's name of a JSON type in a decoding error."""
    names = {"boolean": "bool", "integer": "number"}
    found = json_type(value)
    return names.get(found, found)
