"""The shape of an object: fields, types, bounds, in the vocabulary of JSON Schema.

One reader for KEDA's published definition and for Kubernetes' own objects. Not the library
jsonschema: pods import this, and the five packages it brings save twenty lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from lagbench.errors import WrongInput

Schema = Mapping[str, Any]

_INT32, _INT64 = range(-(2**31), 2**31), range(-(2**63), 2**63)

_LEAST = {"string": "minLength", "array": "minItems"}

# Near enough in meaning, but not in spelling.
_MEANT = {
    "minReplicas": "minReplicaCount",
    "maxReplicas": "maxReplicaCount",
    "idleReplicas": "idleReplicaCount",
    "cooldown": "cooldownPeriod",
    "stabilisationWindowSeconds": "stabilizationWindowSeconds",
}

_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"

QUANTITY: Schema = {
    "type": ["integer", "number", "string"],
    "pattern": rf"[+-]?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{_NUMBER})?",
    "description": "a quantity such as 10, 250m or 1.5Gi",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an object is rejected: a stable ``code``, the field, and what to write instead."""

    code: str
    field: str
    text: str
    instead: str = ""

    def __str__(self) -> str:
        """Return field and reason."""
        return f"{self.field}: {self.text}"


def text(**more: Any) -> Schema:
    """Return the schema of a string."""
    return {"type": ["string"], **more}


def whole(minimum: int | None = None) -> Schema:
    """Return the schema of an integer."""
    return {"type": ["integer"]} if minimum is None else {"type": ["integer"], "minimum": minimum}


def flag() -> Schema:
    """Return the schema of a boolean."""
    return {"type": ["boolean"]}


def texts() -> Schema:
    """Return the schema of a mapping of strings to strings."""
    return {"type": ["object"], "additionalProperties": text()}


def rows(items: Schema, min_items: int = 0) -> Schema:
    """Return the schema of a list."""
    return {"type": ["array"], "items": items, "minItems": min_items}


def anything() -> Schema:
    """Return the schema of an object that is taken as it is."""
    return {"type": ["object"]}


def entry(properties: Mapping[str, Schema], *required: str) -> Schema:
    """Return the schema of an object with known fields."""
    return {
        "type": ["object"],
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _children(value: Any, schema: Schema, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield place, value and schema of what is in a value; False: the schema has no such field."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item, schema.get("items", entry({}))
    elif isinstance(value, Mapping):
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", None if "object" in schema["type"] else False)
        for name, item in value.items():
            part = f"[{name}]" if "." in str(name) else f".{name}"
            below = known.get(name, others)
            yield (f"{path}{part}" if path else str(name)), item, below


def unknown_fields(value: Any, schema: Schema, path: str = "") -> Iterator[Refusal]:
    """Yield the fields that the schema does not have, with the one that was probably meant."""
    known = list(schema.get("properties", ()))
    for place, item, below in _children(value, schema, path):
        if below is False:
            name = place.rpartition(".")[2]
            meant = _MEANT.get(name)
            if meant not in known:
                meant = next(iter(get_close_matches(name, known, n=1, cutoff=0.6)), None)
            yield Refusal(
                "unknown-field",
                place,
                "unknown field; a client without strict validation drops it silently",
                meant or (f"one of {', '.join(known)}" if known else "leave it out"),
            )
        elif below is not None:
            yield from unknown_fields(item, below, place)


def schema_refusals(value: Any, schema: Schema, path: str = "") -> Iterator[Refusal]:
    """Yield what the API server rejects by the schema; unknown fields are not among it."""
    problem = _own_problem(value, schema)
    if problem is not None:
        is_unquoted = schema.get("type") == ["string"] and not isinstance(value, str)
        yield Refusal("schema", path, problem, quoted_form(value) if is_unquoted else "")
        return
    for name in schema.get("required", ()) if isinstance(value, Mapping) else ():
        if name not in value:
            yield Refusal("schema", f"{path}.{name}" if path else name, "required, and absent")
    for place, item, below in _children(value, schema, path):
        if below:
            yield from schema_refusals(item, below, place)


def _own_problem(value: Any, schema: Schema) -> str | None:
    types, found = schema.get("type"), json_type(value)
    if types and found not in types:
        return f"must be of type {' or '.join(types)}, and is {found}"
    if value not in schema.get("enum", (value,)):
        return f"must be one of {', '.join(schema['enum'])}"
    if len(value) < schema.get(_LEAST[found], 0) if found in _LEAST else False:
        return "must not be empty"
    if found == "string" and not re.fullmatch(schema.get("pattern", ".*"), value, re.DOTALL):
        return f"must be {schema['description']}"
    if found in {"integer", "number"} and value < schema.get("minimum", value):
        return f"must be at least {schema['minimum']}"
    return None


def overflows(value: Any, schema: Schema, path: str = "") -> Iterator[Refusal]:
    """Yield integers that no int32 holds: the schema lets them pass, Go's decoder does not."""
    if json_type(value) == "integer" and "integer" in schema.get("type", ()):
        if value not in _INT32:
            yield Refusal("schema", path, "is beyond int32", "int32")
        return
    for place, item, below in _children(value, schema, path):
        if below:
            yield from overflows(item, below, place)


def known_fields(value: Any, schema: Schema) -> Any:
    """Return the value without the fields that the schema does not have."""
    if isinstance(value, list) and "items" in schema:
        return [known_fields(item, schema["items"]) for item in value]
    if not isinstance(value, Mapping) or "object" not in schema.get("type", ()):
        return value
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    return {
        name: known_fields(item, known.get(name) or others or {})
        for name, item in value.items()
        if name in known or others is not False
    }


def value_at(manifest: Any, path: str) -> Any:
    """Return the value at a path such as ``spec.triggers[0].type``; None when there is none."""
    value = manifest
    for part in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        name = part.strip("[]")
        if isinstance(value, list):
            value = value[int(name)] if name.isdigit() and int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, Mapping) else None
    return value


def quoted_form(value: object) -> str:
    """Return what to write where a string is wanted and YAML has read something else."""
    if isinstance(value, bool):
        words = "true, yes, on, y" if value else "false, no, off, n"
        return f'"{str(value).lower()}" in quotes (YAML reads {words} as a boolean)'
    return f'"{value}" in quotes'


def json_type(value: Any) -> str:
    """Return JSON's name of the value's type; a number that no int64 holds is a float."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if value in _INT64 else "number"
    names = {float: "number", str: "string", list: "array", type(None): "null"}
    return names.get(type(value), "object" if isinstance(value, Mapping) else "unknown")


_FIRST_COARSE_FLOAT = 2**53


def json_value(value: Any, *, keep_floats: bool = False) -> Any:
    """Return the value without nulls in objects, with whole numbers as integers: 12.0 is 12.

    Floats that do not count one by one stay floats, all with ``keep_floats``: messages name them.
    """
    if isinstance(value, float):
        is_whole = value.is_integer() and abs(value) < _FIRST_COARSE_FLOAT
        return int(value) if is_whole and not keep_floats else value
    if isinstance(value, Mapping):
        given = {key: item for key, item in value.items() if item is not None}
        return {key: json_value(item, keep_floats=keep_floats) for key, item in given.items()}
    if isinstance(value, list):
        return [json_value(item, keep_floats=keep_floats) for item in value]
    return value


def refuse_unknown_fields(
    given: object, known: Sequence[str], *, where: str, field: str
) -> Mapping[str, Any]:
    """Return ``given`` as a mapping of known fields; ``WrongInput`` names the first other one."""
    if not isinstance(given, Mapping):
        raise WrongInput(where=where, field=field, value=given, allowed="a mapping of fields")
    for name in given:
        if name not in known:
            close = get_close_matches(str(name), known, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]}? Fields here: " if close else "fields here: "
            allowed = hint + ", ".join(known)
            value = given[name]
            raise WrongInput(where=where, field=f"{field}.{name}", value=value, allowed=allowed)
    return given
