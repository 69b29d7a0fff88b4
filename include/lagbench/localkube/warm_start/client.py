"""localkube's side of the warm interpreter: keep one running and request processes from it.

It is started with localkube, and again when it ends. While none is warm, containers are exec'd
without waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lagbench.adapters.process.descendants import adopt_orphans
from lagbench.adapters.process.process_priority import CONTROL_PLANE
from lagbench.adapters.process.processes import GroupReaper, start_tied
from lagbench.localkube.node.pod_environment import LaunchPlan
from lagbench.localkube.warm_start.fitness import forked_executable

_log = logging.getLogger(__name__)
_MODULE = "lagbench.localkube.warm_start.interpreter"
_ANSWER_BYTES = 4096
_ANSWER_SECONDS = 5.0  # a fork takes milliseconds; a hanging interpreter is ended
_FIRST_RESTART_SECONDS = 1.0
_LONGEST_RESTART_SECONDS = 60.0


@dataclass(slots=True)
class ForkedProcess:
    """A forked process that waits for its release; without a release it ends by itself."""

    pid: int
    _go: int

    def release(self) -> None:
        """Let it run the pod's program."""
        with contextlib.suppress(BrokenPipeError):  # it was killed meanwhile
            os.write(self._go, b"+")
        os.close(self._go)

    def abandon(self) -> None:
        """Let it end, and reap it."""
        os.close(self._go)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class WarmInterpreter:
    """Keeps a warm interpreter and returns forks of it."""

    def __init__(self, log_file: Path, environment: Mapping[str, str], reaper: GroupReaper) -> None:
        """Keep the settings; every pod inherits ``environment``."""
        self._log_file, self._environment, self._reaper = log_file, dict(environment), reaper
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._restart: asyncio.TimerHandle | None = None
        self._restart_seconds = _FIRST_RESTART_SECONDS
        self._warm = asyncio.Event()
        self._is_fit = True

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return None if self._process is None else self._process.pid

    async def until_warm(self) -> None:
        """Return when it can fork."""
        await self._warm.wait()

    def start(self) -> None:
        """Start it; call on the event loop's thread: it ends with the thread that started it."""
        self._restart = None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        command = [sys.executable, "-m", _MODULE, str(theirs.fileno()), str(os.getpid())]
        try:
            adopt_orphans()
            with theirs, self._log_file.open("ab") as log:
                self._process = start_tied(
                    command,
                    log=log,
                    env=self._environment,
                    niceness=CONTROL_PLANE,
                    pass_fds=[theirs.fileno()],
                )
        except OSError as error:
            ours.close()
            _log.warning("no warm interpreter: %s; pods are exec'd", error)
            return
        self._reaper.watch(self._process.pid)
        self._channel = ours
        asyncio.get_running_loop().add_reader(ours, self._on_answer)

    def close(self) -> None:
        """End it; pods that it forked keep running."""
        self._is_fit = False
        if self._restart is not None:
            self._restart.cancel()
        self._lose()

    async def fork(self, plan: LaunchPlan, log: int) -> ForkedProcess | None:
        """Return a process that becomes the plan's command on release; None means exec it.

        Its output goes to the descriptor ``log``.
        """
        if not self._warm.is_set() or self._channel is None:
            return None
        executable = forked_executable(plan, self._environment)
        if executable is None:
            return None
        listens, go = os.pipe()
        pid = None
        try:
            pid = await self._ask(self._channel, _request(plan, executable), log, listens)
        except (OSError, TimeoutError) as error:
            _log.warning("the warm interpreter did not fork: %r; the pod is exec'd", error)
        finally:
            os.close(listens)
            if pid is None:
                os.close(go)
        return None if pid is None else ForkedProcess(pid, go)

    async def _ask(self, channel: socket.socket, text: bytes, log: int, go: int) -> int:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        with os.fdopen(os.memfd_create("pod"), "wb") as request:
            request.write(text)
            request.flush()
            request.seek(0)
            socket.send_fds(channel, [b"f"], [request.fileno(), log, go])
        self._waiting.append(answer)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            self._lose()
            raise

    def _on_answer(self) -> None:
        channel = self._channel
        if channel is None:
            return
        try:
            answer = channel.recv(_ANSWER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            answer = b""
        if not answer:
            self._lose()
            return
        said: dict[str, Any] = json.loads(answer)
        if "pid" in said or "failed" in said:
            self._settle(said)
        elif said.get("warm"):
            self._warm.set()
            self._restart_seconds = _FIRST_RESTART_SECONDS
            _log.info("pods of our programs fork from pid %s from now on", self.pid)
        elif "unfit" in said:
            self._is_fit = False
            _log.warning("no pod is forked on this machine: %s", said["unfit"])
        elif said.get("stale"):
            self._restart_seconds = 0.0
            _log.info("sources have changed: the interpreter is warmed up again")

    def _settle(self, said: dict[str, Any]) -> None:
        waiting = self._waiting.popleft()
        if waiting.done():
            return
        if "pid" in said:
            waiting.set_result(int(said["pid"]))
        else:
            waiting.set_exception(OSError(said["failed"]))

    def _lose(self) -> None:
        """Drop a warm interpreter that has ended or has to end; start another one later."""
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None
        self._warm.clear()
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(ConnectionError("the warm interpreter has ended"))
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._reaper.forget(self._process.pid)
            self._process = None
        if self._is_fit:
            loop = asyncio.get_running_loop()
            self._restart = loop.call_later(self._restart_seconds, self.start)
            doubled = max(self._restart_seconds, _FIRST_RESTART_SECONDS / 2) * 2
            self._restart_seconds = min(doubled, _LONGEST_RESTART_SECONDS)


def _request(plan: LaunchPlan, executable: str) -> bytes:
    fields = {
        "command": plan.command,
        "executable": executable,
        "environment": plan.environment,
        "folder": str(plan.folder),
        "niceness": plan.niceness,
    }
    return json.dumps(fields).encode()
