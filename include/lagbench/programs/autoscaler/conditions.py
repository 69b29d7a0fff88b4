"""Merge status conditions as controllers do: the instant moves only when the status does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lagbench.core.hpa import Condition
from lagbench.core.kubernetes import format_instant


def merge_conditions(
    before: Sequence[dict[str, Any]], changes: Iterable[Condition], *, now_ns: int | None
) -> list[dict[str, Any]]:
    """Return ``before`` with ``changes`` laid over it, new types at the end.

    ``now_ns`` None leaves out lastTransitionTime, as KEDA does for a ScaledObject.
    """
    merged = {item["type"]: dict(item) for item in before}
    for change in changes:
        old = merged.get(change.type, {})
        new: dict[str, Any] = {"type": change.type, "status": change.status}
        if now_ns is not None:
            is_same = old.get("status") == change.status and "lastTransitionTime" in old
            new["lastTransitionTime"] = (
                old["lastTransitionTime"] if is_same else format_instant(now_ns)
            )
        if change.reason:
            new["reason"] = change.reason
        if change.message:
            new["message"] = change.message
        merged[change.type] = new
    return list(merged.values())


def condition_of(status: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the condition of a type; empty when there is none."""
    found = (item for item in status.get("conditions") or [] if item.get("type") == kind)
    return next(found, {})
