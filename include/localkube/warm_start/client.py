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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localkube.node.pod_environment import LaunchPlan
from localkube.processes import CONTROL_PLANE, GroupReaper, adopt_orphans, start_tied

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


def forked_executable(
    plan: LaunchPlan, prefixes: tuple[str, ...], warm: Mapping[str, str]
) -> str | None:
    """Return the interpreter's file if ``plan`` may be forked; None if it has to be exec'd.

    ``warm`` is the environment in which the warm interpreter was started. A plan may be forked if
    it is ``python -m`` of a module that begins with one of ``prefixes``, run by localkube's own
    interpreter, in the pod's own folder (modules of another folder would come first). The variables
    that are read only at start must be the same.
    """
    command, environment = plan.command, plan.environment
    if len(command) < 3 or command[1] != "-m" or not command[2].startswith(prefixes):
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
        prefixes: tuple[str, ...] = (),
        modules: Sequence[str] = (),
    ) -> None:
        """Keep the settings; pods inherit ``environment``; without a prefix none is forked."""
        self._prefixes, self._modules = prefixes, modules
        self._log_file, self._environment, self._reaper = log_file, dict(environment), reaper
        self._life: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None  # of an interpreter that is warm
        self._warm = asyncio.Event()
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[dict[str, Any]] | None = None

    async def until_warm(self) -> None:
        """Return when it can fork."""
        await self._warm.wait()

    def start(self) -> None:
        """Keep one from now on; call on the event loop's thread: it ends with that thread."""
        if self._prefixes:
            self._life = asyncio.create_task(self._keep())

    def close(self) -> None:
        """End it; pods that it forked keep running."""
        if self._life is not None:
            self._life.cancel()

    async def fork(self, plan: LaunchPlan, log: int) -> ForkedProcess | None:
        """Return a process that becomes the plan's command on release; None means exec it.

        Its output goes to the descriptor ``log``.
        """
        executable = forked_executable(plan, self._prefixes, self._environment)
        if self._channel is None or executable is None:
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
            async with self._turn:
                pid = await self._ask(json.dumps(fields).encode(), log, listens)
        except (OSError, TimeoutError) as error:
            _log.warning("the warm interpreter did not fork: %r; the pod is exec'd", error)
        finally:
            os.close(listens)
            if pid is None:
                os.close(go)
        return None if pid is None else ForkedProcess(pid, go)

    async def _ask(self, text: bytes, log: int, go: int) -> int:
        if self._channel is None:
            raise ConnectionError("it has ended meanwhile")
        self._answer = asyncio.get_running_loop().create_future()
        with os.fdopen(os.memfd_create("pod"), "wb") as request:
            request.write(text)
            request.flush()
            request.seek(0)
            socket.send_fds(self._channel, [b"f"], [request.fileno(), log, go])
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                said = await self._answer
        except TimeoutError:
            if self._process is not None:
                self._process.kill()
            raise
        if "pid" not in said:
            raise OSError(said.get("failed", "it has ended"))
        return int(said["pid"])

    async def _keep(self) -> None:
        """Start one interpreter after the other, the next one later when it was never warm."""
        seconds = _FIRST_RESTART_SECONDS
        while True:
            try:
                adopt_orphans()
                last_word = await self._live()
            except OSError as error:
                _log.warning("no warm interpreter: %s; pods are exec'd", error)
                last_word = ""
            if last_word == "unfit":
                return
            seconds = _FIRST_RESTART_SECONDS if last_word else seconds * 2
            seconds = min(seconds, _LONGEST_RESTART_SECONDS)
            await asyncio.sleep(0 if last_word == "stale" else seconds)

    async def _live(self) -> str:
        """Run one interpreter to its end; return what it said last of itself."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        numbers = (str(theirs.fileno()), str(os.getpid()))
        with ours:
            with theirs, self._log_file.open("ab") as log:
                self._process = process = start_tied(
                    [sys.executable, "-m", _MODULE, *numbers, *self._modules],
                    log=log,
                    env=self._environment,
                    niceness=CONTROL_PLANE,
                    pass_fds=[theirs.fileno()],
                )
            self._reaper.watch(process.pid)
            try:
                return await self._listen(ours, process.pid)
            finally:
                self._channel = None
                self._warm.clear()
                process.kill()
                process.wait()
                self._reaper.forget(process.pid)
                self._tell({})

    async def _listen(self, channel: socket.socket, pid: int) -> str:
        loop, last_word = asyncio.get_running_loop(), ""
        with contextlib.suppress(ConnectionError):
            while answer := await loop.sock_recv(channel, _ANSWER_BYTES):
                said: dict[str, Any] = json.loads(answer)
                if "pid" in said or "failed" in said:
                    self._tell(said)
                    continue
                last_word = next(iter(said))
                if last_word == "warm":
                    self._channel = channel
                    self._warm.set()
                    _log.info("pods fork from pid %s from now on", pid)
                elif last_word == "unfit":
                    _log.warning("no pod is forked on this machine: %s", said["unfit"])
                else:
                    _log.info("sources have changed: the interpreter is warmed up again")
        return last_word

    def _tell(self, said: dict[str, Any]) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(said)
