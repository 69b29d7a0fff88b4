"""The Ready condition of an object (of a pod, or of a ScaledObject), and pods that never last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_ENDS = 3
"""The kubelet starts a container at once after its first end, and 10 s after its second."""


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


def repeated_ends(pod: Mapping[str, Any]) -> str | None:
    """Return how the pod's container has ended three times or more; None: it runs, or may yet."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        ends = int(container.get("restartCount") or 0)
        if ends < _MOST_ENDS or container.get("ready"):
            continue
        states = (container.get("state") or {}, container.get("lastState") or {})
        ended: Mapping[str, Any] = next(
            (state["terminated"] for state in states if state.get("terminated")), {}
        )
        why = f"{ended.get('exitCode', 'unknown')} ({ended.get('reason', 'no reason given')})"
        return f"container {container['name']} ended {ends} times, last with exit code {why}"
    return None
