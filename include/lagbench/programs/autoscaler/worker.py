"""A thread per object: it works, sleeps until its next instant or a change, and never dies."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import ClassVar

from lagbench.adapters.kube.cluster_protocol import Kind, Manifest, key_of
from lagbench.programs.autoscaler.context import WorkerContext
from lagbench.programs.autoscaler.status_and_events import EventRecorder, EventType, StatusWriter

log = logging.getLogger(__name__)

_AFTER_ERROR_SECONDS = 1.0


class Worker(threading.Thread, ABC):
    """Runs ``step`` for one object (one uid) again and again; each says when the next is due."""

    kind: ClassVar[Kind]

    def __init__(self, manifest: Manifest, context: WorkerContext) -> None:
        """Take the object up; nothing happens before ``start``."""
        self.key, self.latest, self.context = key_of(manifest), manifest, context
        # Daemon: the process may end at once on SIGTERM, whatever a broker keeps a thread from.
        super().__init__(name=f"{self.kind[1]} {'/'.join(self.key)}", daemon=True)
        self.status = StatusWriter(context.cluster, self.kind, manifest)
        self._events = EventRecorder(context.cluster, context.component, context.clock.wall_ns)
        self._woken = threading.Event()
        self._is_over = threading.Event()
        self._is_abandoned = False

    def wake(self) -> None:
        """Have the next step now."""
        self._woken.set()

    def stop(self) -> None:
        """Have no further step; one that is under way ends by itself."""
        self._is_over.set()
        self._woken.set()

    def abandon(self) -> None:
        """End without ``finish``: the object stays, only this process goes."""
        self._is_abandoned = True
        self.stop()

    def is_of(self, manifest: Manifest) -> bool:
        """Return whether it is the object that was taken up, not one created again."""
        return bool(manifest["metadata"].get("uid") == self.latest["metadata"].get("uid"))

    def event(self, kind: EventType, reason: str, message: str) -> None:
        """Record an event about the object as it is by now."""
        self._events.record(self.latest, kind, reason, message)

    def update(self, manifest: Manifest) -> bool:
        """Take a newer version; True: its spec is another."""
        is_other = manifest.get("spec") != self.latest.get("spec")
        self.latest = manifest
        return is_other

    @abstractmethod
    def step(self) -> float:
        """Do what is due and return the seconds until the next step."""

    @abstractmethod
    def finish(self) -> None:
        """Do what is left to do once stopped."""

    def run(self) -> None:
        """Work until stopped."""
        while not self._is_over.is_set():
            self._woken.clear()
            try:
                delay_seconds = self.step()
            except Exception:
                log.exception("%s: step failed, continuing", self.name)
                delay_seconds = _AFTER_ERROR_SECONDS
            if not self._is_over.is_set():
                self._woken.wait(max(0.0, delay_seconds))
        try:
            if not self._is_abandoned:
                self.finish()
        except Exception:
            log.exception("%s: end failed", self.name)
