"""Durations as KEDA reads them: Go's notation, or a number of milliseconds."""

from __future__ import annotations

import re

from lagbench.core.kubernetes import go_quote

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_PIECE = re.compile(rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"(?P<sign>[+-]?)(?:0|(?P<pieces>(?:{_NUMBER}(?:ns|us|µs|μs|ms|s|m|h))+))")
_MILLISECONDS = re.compile(r"[+-]?[0-9]+")
_HOW = "must be either a duration string (e.g. '30s', '5m') or a number of milliseconds"


def duration_problem(text: str) -> str | None:
    """Return KEDA's message for a text that is not a duration; None if it is one."""
    found = _DURATION.fullmatch(text)
    if found is None and not _MILLISECONDS.fullmatch(text):
        return f"unable to parse duration value {go_quote(text)}: {_HOW}"
    if duration_seconds(text) >= 0:
        return None
    shown = f"{int(text)} milliseconds" if found is None else go_quote(text)
    return f"duration cannot be negative: {shown}"


def duration_seconds_of(text: str) -> float | None:
    """Return a duration in Go's notation in seconds; None: it is none."""
    return duration_seconds(text) if _DURATION.fullmatch(text) else None


def duration_seconds(text: str) -> float:
    """Return a duration in seconds; a number without a unit counts milliseconds."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return int(text) / 1000
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PIECE.findall(text))
    return -seconds if found["sign"] == "-" else seconds
