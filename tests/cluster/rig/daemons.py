"""The rig's processes: each tied to this one, with its log in a file, ended by pid."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localkube.processes import GroupReaper, end_process, start_tied

_POLL_SECONDS = 0.1
_LINE_LIMIT = 400  # KEDA logs its stack in one line


class RigNotReady(RuntimeError):
    """A part of the rig did not come up; the message ends with its log."""


@dataclass
class Daemons:
    """Starts daemons in order and ends them in reverse."""

    logs: Path
    _reaper: GroupReaper = field(default_factory=GroupReaper)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self, name: str, command: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> None:
        """Start one daemon; its output is appended to ``<name>.log``."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            process = start_tied(command, log=log, env=env)
        self._reaper.watch(process.pid)
        self._running[name] = process

    def stop(self, name: str, *, grace_seconds: float = 10.0) -> None:
        """End one daemon and forget it."""
        process = self._running.pop(name)
        end_process(process.pid, grace_seconds=grace_seconds)
        process.wait(timeout=60)
        self._reaper.forget(process.pid)

    def stop_all(self) -> None:
        """End all daemons, the last one first."""
        for name in reversed(list(self._running)):
            self.stop(name, grace_seconds=5.0)
        self._reaper.close()

    def wait(
        self, what: str, condition: Callable[[], bool], *, daemon: str, limit_seconds: float = 180.0
    ) -> None:
        """Wait for a condition; a daemon that ended or never got there shows its log's end."""
        pause, give_up_at = threading.Event(), time.monotonic() + limit_seconds
        while not condition():
            has_ended = self._running[daemon].poll() is not None
            if has_ended or time.monotonic() > give_up_at:
                problem = "has ended" if has_ended else f"is not there after {limit_seconds:.0f} s"
                raise RigNotReady(f"{what}: {daemon} {problem}\n{self.log_tail(daemon)}")
            pause.wait(_POLL_SECONDS)

    def log_tail(self, name: str, lines: int = 25) -> str:
        """Return the last lines of a daemon's log."""
        text = (self.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(line[:_LINE_LIMIT] for line in text.splitlines()[-lines:])
