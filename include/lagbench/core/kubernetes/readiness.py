"""The Ready condition of an object: of a pod, or of a custom resource such as a ScaledObject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_ready(found: Mapping[str, Any]) -> bool:
    """Return whether the object is Ready; one without a status, or an unknown one, is not."""
    return _ready(found) is not None


def ready_since(found: Mapping[str, Any]) -> str | None:
    """Return since when the object is Ready, as the API server wrote it; None: it is not Ready."""
    ready = _ready(found)
    return None if ready is None else str(ready.get("lastTransitionTime") or "") or None


def _ready(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    conditions = (found.get("status") or {}).get("conditions") or ()
    held = (c for c in conditions if c.get("type") == "Ready" and c.get("status") == "True")
    return next(held, None)
