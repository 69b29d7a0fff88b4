"""Readers of single fields of a ScaledObject, with the bounds of its CRD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.errors import WrongInput

_INT32_MAX = 2**31 - 1


def whole(
    given: Mapping[str, Any],
    key: str,
    *,
    default: int,
    low: int,
    where: str,
    field: str = "spec",
) -> int:
    """Return a whole number of at least ``low``; absent is ``default``."""
    value = optional_whole(given, key, low=low, where=where, field=field)
    return default if value is None else value


def optional_whole(
    given: Mapping[str, Any], key: str, *, low: int, where: str, field: str = "spec"
) -> int | None:
    """Return a whole number of at least ``low``; absent is None."""
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= _INT32_MAX:
        allowed = f"a whole number from {low} to {_INT32_MAX}"
        raise WrongInput(where=where, field=f"{field}.{key}", value=value, allowed=allowed)
    return value


def required_whole(given: Mapping[str, Any], key: str, *, where: str, field: str) -> int:
    """Return a whole number of at least 0 that has to be there."""
    value = optional_whole(given, key, low=0, where=where, field=field)
    if value is None:
        allowed = f"a whole number from 0 to {_INT32_MAX}"
        raise WrongInput(where=where, field=f"{field}.{key}", value=None, allowed=allowed)
    return value


def boolean(given: Mapping[str, Any], key: str, *, where: str, field: str) -> bool:
    """Return true or false; absent is false."""
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise WrongInput(where=where, field=f"{field}.{key}", value=value, allowed="true or false")
    return value


def text(given: Mapping[str, Any], key: str, *, where: str, field: str) -> str:
    """Return a string; absent is empty."""
    value = given.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        allowed = f"a string: {quoted_form(value)}"
        raise WrongInput(where=where, field=f"{field}.{key}", value=value, allowed=allowed)
    return value


def quoted_form(value: object) -> str:
    """Return what to write where a string is wanted and YAML has read something else."""
    if isinstance(value, bool):
        words = "true, yes, on, y" if value else "false, no, off, n"
        return f'"{str(value).lower()}" in quotes (YAML reads {words} as a boolean)'
    return f'"{value}" in quotes'
