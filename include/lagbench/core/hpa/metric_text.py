"""Show a metric of an HPA, of its spec or of its status, as one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def metric_text(metric: Mapping[str, Any], part: str) -> str:
    """Return the name with the values of ``part``, ``current`` or ``target``."""
    name, found = metric_part(metric, part)
    values = ", ".join(f"{key} {value}" for key, value in sorted(found.items()) if key != "type")
    return f"{name}: {values}" if values else f"{name}: unknown"


def metric_part(metric: Mapping[str, Any], part: str) -> tuple[str, Mapping[str, Any]]:
    """Return the metric's name, and its ``current`` or ``target`` as stored."""
    kind = metric.get("type", "")
    detail = metric.get(kind[:1].lower() + kind[1:]) or {}
    name = detail.get("name") or (detail.get("metric") or {}).get("name") or kind
    return name, detail.get(part) or {}
