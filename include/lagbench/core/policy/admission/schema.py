"""A schema as a custom resource definition has it, as far as KEDA's definitions use schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SchemaType = Literal["object", "array", "string", "integer", "boolean", "integer,string"]


@dataclass(frozen=True, slots=True)
class Schema:
    """One node; ``integer,string`` is Kubernetes' int-or-string.

    ``struct`` is the name of the Go type behind an object: it is part of a decoding error.
    """

    type: SchemaType
    properties: Mapping[str, Schema] = field(default_factory=dict)
    values: Schema | None = None
    items: Schema | None = None
    required: tuple[str, ...] = ()
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    min_length: int = 0
    min_items: int = 0
    pattern: str = ""
    keeps_unknown: bool = False
    struct: str = ""


def text(*, enum: tuple[str, ...] = (), min_length: int = 0) -> Schema:
    """Return the schema of a string."""
    return Schema("string", enum=enum, min_length=min_length)


def whole(minimum: int | None = None) -> Schema:
    """Return the schema of an integer; KEDA's are all int32, which only the webhook holds."""
    return Schema("integer", minimum=minimum)


def flag() -> Schema:
    """Return the schema of a boolean."""
    return Schema("boolean")


def entry(struct: str, properties: Mapping[str, Schema], *required: str) -> Schema:
    """Return the schema of an object with known fields."""
    return Schema("object", properties=properties, required=required, struct=struct)


def rows(items: Schema, *, min_items: int = 0) -> Schema:
    """Return the schema of a list."""
    return Schema("array", items=items, min_items=min_items)


def texts() -> Schema:
    """Return the schema of a mapping of strings to strings."""
    return Schema("object", values=text())


def anything() -> Schema:
    """Return the schema of an object that is taken as it is."""
    return Schema("object", keeps_unknown=True)
