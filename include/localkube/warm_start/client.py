"""localkube's side of the warm interpreter: keep one running and request processes from it.

It is started with localkube, and again when it ends. While none is warm, containers are exec'd
without waiting. So is what a fork would not start exactly as an exec does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localkube.node.pod_environment import LaunchPlan
from localkube.processes import (
    CONTROL_PLANE,
    GroupReaper,
    adopt_orphans,
    start_tied,
)

_log = logging.getLogger(__name__)
_MODULE = "localkube.warm_start.interpreter"
# Variables that the interpreter, the C library or a native library reads only at its start.
_READ_AT_START = re.compile(
    r"PYTHON|LD_|GLIBC_|MALLOC_|OPENBLAS_|OMP_|MKL_|GOTO_|NPY_|ARROW_|JE_|MIMALLOC_|OPENSSL_|SSL_"
    r"|LC_|LANG$|LANGUAGE$|TZ$|HOME$|VIRTUAL_ENV$|__PYVENV"
)
_LONGEST_STRING_BYTES = 32 * 4096  # the kernel's MAX_ARG_STRLEN: an exec rejects more
_ANSWER_BYTES = 4096
_ANSWER_SECONDS = 5.0  # a fork takes milliseconds; a hanging interpreter is ended
_FIRST_RESTART_SECONDS = 1.0
_LONGEST_RESTART_SECONDS = 60.0


def forked_executable(plan: LaunchPlan, prefix: str, warm: Mapping[str, str]) -> str | None:
    """Return the interpreter's file if ``plan`` may be forked; None if it has to be exec'd.

    ``warm`` is the environment in which the warm interpreter was started. A plan may be forked if
    it is ``python -m`` of a module that begins with ``prefix``, run by localkube's own interpreter,
    in the pod's own folder (modules of another folder would come first). The variables that are
    read only at start must be the same.
    """
    command, environment = plan.command, plan.environment
    if len(command) < 3 or command[1] != "-m" or not command[2].startswith(prefix):
        return None

    def at_start(variables: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in variables.items() if _READ_AT_START.match(name)}

    if not plan.has_own_folder or at_start(environment) != at_start(warm):
        return None
    strings = [*command, *(f"{name}={value}" for name, value in environment.items())]
    if any("\0" in text or len(os.fsencode(text)) >= _LONGEST_STRING_BYTES for text in strings):
        return None
    found = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    own = Path(sys.executable)
    # The same file, through the same virtual environment.
    is_own = found is not None and Path(found).parent == own.parent
    return found if is_own and found and Path(found).resolve() == own.resolve() else None


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

    def __init__(
        self,
        log_file: Path,
        environment: Mapping[str, str],
        reaper: GroupReaper,
        prefix: str = "",
        modules: Sequence[str] = (),
    ) -> None:
        """Keep the settings; pods inherit ``environment``; without a prefix none is forked."""
        self._prefix, self._modules = prefix, modules
        self._log_file, self._environment, self._reaper = log_file, dict(environment), reaper
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._restart: asyncio.TimerHandle | None = None
        self._restart_seconds = _FIRST_RESTART_SECONDS
        self._warm = asyncio.Event()
        self._is_fit = bool(prefix)

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
        if not self._prefix:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        numbers = (str(theirs.fileno()), str(os.getpid()))
        command = [sys.executable, "-m", _MODULE, *numbers, *self._modules]
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
        executable = forked_executable(plan, self._prefix, self._environment)
        if executable is None:
            return None
        fields = {
            "command": plan.command,
            "executable": executable,
            "environment": plan.environment,
            "folder": str(plan.folder),
            "niceness": plan.niceness,
        }
        listens, go = os.pipe()
        pid = None
        try:
            pid = await self._ask(self._channel, json.dumps(fields).encode(), log, listens)
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
        if self._channel is None:
            return
        try:
            answer = self._channel.recv(_ANSWER_BYTES)
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
            _log.info("pods fork from pid %s from now on", self.pid)
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
        loop = asyncio.get_running_loop()
        if self._channel is not None:
            loop.remove_reader(self._channel)
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
            self._restart = loop.call_later(self._restart_seconds, self.start)
            doubled = max(self._restart_seconds, _FIRST_RESTART_SECONDS / 2) * 2
            self._restart_seconds = min(doubled, _LONGEST_RESTART_SECONDS)
