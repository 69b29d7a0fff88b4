"""Know which HPAs and ScaledObjects scale the workload, as they become known.

Events name an object, not its target, and one may come before the object was read.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

_EVENTS_HELD = 100  # of one object that may never prove to be the workload's

Scaler = tuple[str, str]
"""Kind and name."""


class OwnScalers:
    """Shared by the threads that read the objects and the one that reads the events."""

    def __init__(self) -> None:
        """Begin without a scaler."""
        self._lock = threading.Lock()
        self._known: set[Scaler] = set()
        self._held: dict[Scaler, deque[Callable[[], None]]] = defaultdict(
            lambda: deque(maxlen=_EVENTS_HELD)
        )

    def learn(self, kind: str, found: Mapping[str, Any]) -> None:
        """Take an object that targets the workload; its ScaledObject, if it has one, does too."""
        metadata = found["metadata"]
        owners = metadata.get("ownerReferences") or []
        own = {(kind, metadata["name"])}
        own |= {(o["kind"], o["name"]) for o in owners if o.get("kind") == "ScaledObject"}
        with self._lock:
            for scaler in own - self._known:
                self._known.add(scaler)
                for send in self._held.pop(scaler, ()):
                    send()

    def once_known(self, scaler: Scaler, send: Callable[[], None]) -> None:
        """Call ``send`` when the object is known to scale the workload, now or later."""
        with self._lock:
            if scaler in self._known:
                send()
            else:
                self._held[scaler].append(send)
