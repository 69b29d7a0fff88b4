"""Watch the process with which the follower ends.

The task that starts the follower ends long before the run, so the parent-death signal of other
children cannot serve here: the owner is the Airflow above that task.
"""

from __future__ import annotations

import os
import select

from lagbench.adapters.process.stop_signal import StopSignal


class OwnerWatch:
    """Shows the end of the owner, also after SIGKILL, and a request to end."""

    def __init__(self, owner_pid: int) -> None:
        """Hold the owner's process; a number that is used again later is another one.

        :raises ProcessLookupError: there is no such process.
        """
        self._poll = select.poll()
        self._owner = os.pidfd_open(owner_pid)
        self._asked = StopSignal()
        for descriptor in (self._owner, self._asked.fileno()):
            self._poll.register(descriptor, select.POLLIN)

    def ask(self) -> None:
        """Let the wait in progress end; safe in a signal handler."""
        self._asked.set()

    def wait(self, seconds: float) -> bool:
        """Wait; True at once if the owner has ended or the end was asked for."""
        return bool(self._poll.poll(round(seconds * 1000)))
