"""A value as the API server's JSON decoder leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FIRST_COARSE_FLOAT = 2**53


def json_value(value: Any) -> Any:
    """Return the value without nulls in objects, with whole numbers as integers: 12.0 is 12.

    Floats that do not count one by one stay floats.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _FIRST_COARSE_FLOAT else value
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    return value
