"""A value as the API server's JSON decoder leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
