"""A thread per object: it works, sleeps until its next instant or a change, and never dies."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

log = logging.getLogger(__name__)

_AFTER_ERROR_SECONDS = 1.0


class Worker(ABC):
    """Runs ``step`` again and again; each step says when the next is due."""

    def __init__(self, name: str) -> None:
        """Name the thread; ``start`` begins the work."""
        self.name = name
        self._woken = threading.Event()
        self._is_over = threading.Event()
        self._is_abandoned = False
        # Daemon: the process may end at once on SIGTERM, whatever a broker keeps a thread from.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

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

    @property
    def is_over(self) -> bool:
        """Return whether the worker was stopped."""
        return self._is_over.is_set()

    def join(self, timeout_seconds: float) -> None:
        """Wait for the thread's end."""
        self._thread.join(timeout_seconds)

    @abstractmethod
    def step(self) -> float:
        """Do what is due and return the seconds until the next step."""

    @abstractmethod
    def finish(self) -> None:
        """Do what is left to do once stopped."""

    def _run(self) -> None:
        while not self.is_over:
            self._woken.clear()
            try:
                delay_seconds = self.step()
            except Exception:
                log.exception("%s: step failed, continuing", self.name)
                delay_seconds = _AFTER_ERROR_SECONDS
            if not self.is_over:
                self._woken.wait(max(0.0, delay_seconds))
        if self._is_abandoned:
            return
        try:
            self.finish()
        except Exception:
            log.exception("%s: end failed", self.name)
