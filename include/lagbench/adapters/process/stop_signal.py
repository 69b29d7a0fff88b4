"""Wait in the main thread for a signal that ends the program.

``threading.Event`` cannot serve: a handler runs in the thread that waits, and setting the event
takes a lock that this thread may hold at that instant.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
from collections.abc import Iterable
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """A request to end; signal handlers and other threads may set it."""

    def __init__(self) -> None:
        """Wait for ``set``."""
        self._is_set = False
        self._listens, self._tells = os.pipe()
        os.set_blocking(self._tells, False)  # a handler must not wait for room
        self._poll = select.poll()
        self._poll.register(self._listens, select.POLLIN)

    @classmethod
    def caught(cls, signums: Iterable[signal.Signals] = _ENDING) -> StopSignal:
        """Return a request that these signals set from now on; call it in the main thread."""
        stop = cls()

        def on_signal(_signum: int, _frame: FrameType | None) -> None:
            stop.set()

        for signum in signums:
            signal.signal(signum, on_signal)
        return stop

    def set(self) -> None:
        """End the wait in progress and all later ones."""
        self._is_set = True
        with contextlib.suppress(BlockingIOError):  # it is full: the wait has ended long ago
            os.write(self._tells, b".")

    def is_set(self) -> bool:
        """Return whether the end was asked for."""
        return self._is_set

    def fileno(self) -> int:
        """Return a descriptor that is readable once the end was asked for."""
        return self._listens

    def wait(self, seconds: float) -> bool:
        """Wait; True at once if the end was asked for."""
        return bool(self._poll.poll(max(0, math.ceil(seconds * 1000))))
