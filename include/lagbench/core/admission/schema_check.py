"""A value against a schema, with the API server's messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.admission.field_error import FieldError, json_text
from lagbench.core.admission.schema import Schema


def without_nulls(value: Any) -> Any:
    """Return the value without fields that hold null: the API server drops them on decoding."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def unknown_fields(value: Any, schema: Schema, path: str = "") -> list[str]:
    """Return the paths of the fields that the schema does not have, sorted."""
    return sorted(_unknown(value, schema, path))


def _unknown(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            if schema.items is not None:
                yield from _unknown(item, schema.items, f"{path}[{index}]")
    elif isinstance(value, Mapping) and not schema.keeps_unknown:
        for name, item in value.items():
            below = schema.properties.get(name) or schema.values
            place = f"{path}.{name}" if path else str(name)
            if below is None:
                yield place
            else:
                yield from _unknown(item, below, place)


def schema_errors(value: Any, schema: Schema, path: str) -> list[FieldError]:
    """Return what the schema refuses, in the schema's order."""
    return list(_errors(value, schema, path))


def _errors(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    found = json_type(value)
    if found not in schema.type.split(","):
        detail = f'{path} in body must be of type {schema.type}: "{found}"'
        yield FieldError("Invalid value", path, detail, found, is_type_error=True)
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
    """Return JSON's name of the value's type; a whole float (1e3) counts as an integer."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    names = {int: "integer", str: "string", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "object" if isinstance(value, Mapping) else "string")
