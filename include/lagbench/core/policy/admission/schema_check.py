"""A value against a schema, with the API server's messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.kubernetes import json_value
from lagbench.core.policy.admission.field_error import FieldError, json_text
from lagbench.core.policy.admission.schema import Schema

_INT32 = (-(2**31), 2**31 - 1)


def known_fields(value: Any, schema: Schema) -> Any:
    """Return the value without the fields that the schema does not have."""
    if isinstance(value, list):
        entry = schema if schema.keeps_unknown else schema.items or Schema("object")
        return [known_fields(item, entry) for item in value]
    if not isinstance(value, Mapping) or schema.keeps_unknown:
        return value
    below = {name: schema.properties.get(name) or schema.values for name in value}
    return {
        name: known_fields(item, inner)
        for name, item in value.items()
        if (inner := below[name]) is not None
    }


def unknown_fields(value: Any, schema: Schema, path: str = "") -> list[str]:
    """Return the paths of the fields that the schema does not have, sorted."""
    return sorted(_unknown(value, schema, path))


def _unknown(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, list):
        # Where the schema wants no list, it knows no field of what is in it either.
        entry = schema if schema.keeps_unknown else schema.items or Schema("object")
        for index, item in enumerate(value):
            yield from _unknown(item, entry, f"{path}[{index}]")
    elif isinstance(value, Mapping) and not schema.keeps_unknown:
        for name, item in value.items():
            below = schema.properties.get(name) or schema.values
            place = f"{path}.{name}" if path else str(name)
            if below is None:
                yield place
            else:
                yield from _unknown(item, below, place)


def overflows(value: Any, schema: Schema, path: str) -> Iterator[str]:
    """Yield the integers that no int32 holds: the schema lets them pass, Go's decoder does not."""
    if isinstance(value, list) and schema.items is not None:
        for item in value:
            yield from overflows(item, schema.items, path)
    if not isinstance(value, Mapping):
        return
    for name, below in schema.properties.items():
        item, place = value.get(name), f"{path}.{name}" if path else name
        if below.type == "integer" and item is not None and not _INT32[0] <= item <= _INT32[1]:
            yield (
                f"json: cannot unmarshal number {item} into Go struct field "
                f"{schema.struct}.{place} of type int32"
            )
        yield from overflows(item, below, place)


def schema_errors(value: Any, schema: Schema, path: str) -> list[FieldError]:
    """Return the errors of the schema, in the schema's order."""
    return list(_errors(value, schema, path))


def _errors(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    found, allowed_types = json_type(value), schema.type.split(",")
    if found not in allowed_types and json_type(json_value(value)) not in allowed_types:
        yield _type_error(path, schema.type, found)
        if len(allowed_types) > 1:  # int-or-string, which the schema says a second time as anyOf
            detail = f'"{path}" must validate at least one schema (anyOf)'
            yield FieldError("Invalid value", "<nil>", detail, "")
            yield _type_error(path, allowed_types[0], found)
    if schema.enum and value not in schema.enum:
        allowed = ", ".join(json_text(item) for item in schema.enum)
        yield FieldError("Unsupported value", path, f"supported values: {allowed}", value)
    if isinstance(value, str):
        yield from _text_errors(value, schema, path)
    elif isinstance(value, list):
        yield from _list_errors(value, schema, path)
    elif isinstance(value, Mapping):
        yield from _object_errors(value, schema, path)
    elif _is_below(value, schema):
        detail = f"{path} in body should be greater than or equal to {schema.minimum}"
        yield FieldError("Invalid value", path, detail, value)


def _type_error(path: str, wanted: str, found: str) -> FieldError:
    detail = f'{path} in body must be of type {wanted}: "{found}"'
    return FieldError("Invalid value", path, detail, found, is_type_error=True)


def _text_errors(value: str, schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.type == "string" and len(value) < schema.min_length:
        detail = f"{path} in body should be at least {schema.min_length} chars long"
        yield FieldError("Invalid value", path, detail, value)
    if schema.pattern and not re.search(schema.pattern.removesuffix("$") + r"\Z", value):
        detail = f"{path} in body should match '{schema.pattern}'"
        yield FieldError("Invalid value", path, detail, value)


def _list_errors(value: list[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.items is None:
        return
    if len(value) < schema.min_items:
        detail = f"{path} in body should have at least {schema.min_items} items"
        yield FieldError("Invalid value", path, detail, len(value))
    for index, item in enumerate(value):
        yield from _errors(item, schema.items, f"{path}[{index}]")


def _object_errors(value: Mapping[str, Any], schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.type != "object":
        return
    for name, item in value.items():
        below = schema.properties.get(name) or schema.values
        if below is not None:
            yield from _errors(item, below, f"{path}.{name}" if path else str(name))
    for name in schema.required:
        if name not in value:
            yield FieldError("Required value", f"{path}.{name}" if path else name)


def _is_below(value: Any, schema: Schema) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and schema.minimum is not None and value < schema.minimum


def json_type(value: Any) -> str:
    """Return the API server's name of the value's type; a number that no int64 holds is a float."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if -(2**63) <= value < 2**63 else "number"
    names = {float: "number", str: "string", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "object" if isinstance(value, Mapping) else "string")
