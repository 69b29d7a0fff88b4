"""A container engine in namespaces of its own: Debian's dockerd, docker compose, no registry."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from lagbench.project import PROJECT_ROOT
from localkube.processes import end_process, signal_group, start_tied
from tests.compose.engine.debian_programs import unpack_programs
from tests.compose.engine.go_programs import go_program
from tests.compose.engine.keeper import KEEP, REMOVE, STOP_LIMIT_SECONDS

_CLONE_NEWNET = 0x40000000
_START_LIMIT_SECONDS = 300.0
_REMOVE_LIMIT_SECONDS = 900.0  # all images: eight gibibytes of small files
_POLL_SECONDS = 0.2
_TAIL_CHARACTERS = 4000
_NAME_SERVER = "10.0.2.3"
"""slirp4netns answers there, with the name servers of this machine."""
_USERS_SETTINGS = (
    "AIRFLOW_", "BUILDKIT_", "BUILDX_", "COMPOSE_", "DOCKER_", "GRAFANA_", "IGGY_", "KAFKA_",
    "POSTGRES_", "PROMETHEUS_",
)  # fmt: skip
"""What a shell may say to docker and compose about other stacks, by how the names begin."""


class EngineFailed(RuntimeError):
    """The engine or a command of it failed; the message ends with what was printed."""


@dataclass
class Engine:
    """An engine below the folder ``work``; images and volumes outlast its restarts."""

    work: Path
    _keeper: subprocess.Popen[bytes] | None = None

    @classmethod
    def new(cls) -> Engine:
        """Return an engine that was not started, with an empty folder."""
        return cls(Path(tempfile.mkdtemp(prefix="lagbench-compose-")))

    def start(self) -> None:
        """Start it and return when it answers."""
        self._configure()
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.compose.engine.keeper", str(self.work), *self._flags()],
            cwd=PROJECT_ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        wait_until(self._answers, "the engine answers", limit_seconds=_START_LIMIT_SECONDS)

    def stop(self, *, keeps_data: bool = False) -> None:
        """Stop it with all its containers; without ``keeps_data`` nothing of it is left."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None and keeper.stdin is not None:
            with contextlib.suppress(BrokenPipeError), keeper.stdin as pipe:  # it may have ended
                pipe.write(KEEP if keeps_data else REMOVE)
            try:
                keeper.wait(timeout=STOP_LIMIT_SECONDS + _REMOVE_LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                keeper.kill()  # the engine ends with it
                keeper.wait()
                raise
        if not keeps_data:
            shutil.rmtree(self.work, ignore_errors=True)  # what a keeper that had ended left

    def restart(self) -> None:
        """Stop and start it, as a restart of the machine does: /run and the network are new."""
        self.stop(keeps_data=True)
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which ``docker`` is this engine's client."""
        programs = unpack_programs()
        libraries = programs / "usr/lib/x86_64-linux-gnu"
        folders = (programs / "links", programs / "usr/sbin", programs / "usr/bin")
        own = {n: v for n, v in os.environ.items() if not n.startswith(_USERS_SETTINGS)}
        return {
            **own,
            "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
            "LD_LIBRARY_PATH": f"{libraries}:{programs / 'lib/x86_64-linux-gnu'}",
            "XTABLES_LIBDIR": str(libraries / "xtables"),
            "DOCKER_HOST": f"unix://{self.work}/docker.sock",
            "DOCKER_CONFIG": str(self.work / "client"),
            "DOCKER_BUILDKIT": "1",
        }

    def docker(self, *arguments: str, limit_seconds: float = 120) -> str:
        """Run ``docker`` with ``arguments`` and return what it printed.

        :raises EngineFailed: its exit code is not 0.
        """
        return self.run(["docker", *arguments], limit_seconds=limit_seconds)

    def run(
        self, command: Sequence[str], *, cwd: Path | None = None, limit_seconds: float = 120
    ) -> str:
        """Run a command as a client of the engine and return what it printed.

        :raises EngineFailed: its exit code is not 0, or it has not ended within the limit.
        """
        process = subprocess.Popen(
            [*command],
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        ended = f"not within {limit_seconds:.0f} s"
        try:
            printed, told = process.communicate(timeout=limit_seconds)
            ended = f"gave {process.returncode}"
        except subprocess.TimeoutExpired:
            signal_group(process.pid, signal.SIGKILL)  # compose is a child of docker
            printed, told = process.communicate()
        except BaseException:
            signal_group(process.pid, signal.SIGKILL)
            raise
        if process.returncode != 0:
            tail = (printed + told)[-_TAIL_CHARACTERS:]
            raise EngineFailed(f"{' '.join(command)} {ended}:\n{tail}")
        return printed

    @contextmanager
    def packages_reachable(self) -> Iterator[None]:
        """Let containers reach what this machine reaches during the block, and never later.

        A user's program passes their connections on: nothing changes in this machine's network.
        """
        command = ["slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback"]
        command += [str(self._first_pid()), "tap0"]
        with (self.work / "slirp4netns.log").open("ab") as log:
            process = start_tied(command, log=log, env=self.environment)
        try:
            with self.network():
                wait_until(
                    lambda: "tap0" in psutil.net_if_addrs() or process.poll() is not None,
                    "the tunnel",
                    limit_seconds=60,
                )
            if process.poll() is not None:
                raise EngineFailed(f"no tunnel: {(self.work / 'slirp4netns.log').read_text()}")
            yield
        finally:
            end_process(process.pid, grace_seconds=10)
            process.wait(timeout=10)

    @contextmanager
    def network(self) -> Iterator[None]:
        """Be in the engine's network during the block: its loopback has the ports.

        This thread is there, and processes that it starts meanwhile.
        """
        with (
            Path("/proc/thread-self/ns/net").open() as own,
            Path(f"/proc/{self._first_pid()}/ns/net").open() as engines,
        ):
            _enter_network(engines.fileno())
            try:
                yield
            finally:
                _enter_network(own.fileno())

    def kill_inside(self, pid: int) -> None:
        """Send SIGKILL to a process, by the number that it has in the engine's namespace.

        :raises EngineFailed: there is no such process.
        """
        for process in self.processes():
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:  # health checks come and go
                continue
            (numbers,) = re.findall(r"^NSpid:\s+(.+)$", status, re.MULTILINE)
            if str(pid) in numbers.split()[1:2]:  # this machine's number comes first
                process.kill()
                return
        raise EngineFailed(f"the engine has no process {pid}")

    def log_tail(self) -> str:
        """Return the end of the engine's log; an engine that ended by itself has printed it."""
        log = self.work / "dockerd.log"
        return log.read_text(errors="replace")[-_TAIL_CHARACTERS:] if log.exists() else "no log"

    def processes(self) -> list[psutil.Process]:
        """Return the keeper and everything that it started."""
        if self._keeper is None:
            return []
        keeper = psutil.Process(self._keeper.pid)
        return [keeper, *keeper.children(recursive=True)]

    def _first_pid(self) -> int:
        """Return the number of the first process inside, as this machine counts."""
        if self._keeper is None:
            raise EngineFailed("the engine is not running")
        try:
            (unshare,) = psutil.Process(self._keeper.pid).children()
            (first,) = unshare.children()
        except (ValueError, psutil.NoSuchProcess):
            raise EngineFailed(f"the engine has ended:\n{self.log_tail()}") from None
        return first.pid

    def _configure(self) -> None:
        plugins = self.work / "client" / "cli-plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        link = plugins / "docker-compose"
        if not link.is_symlink():
            link.symlink_to(go_program("docker-compose"))
        (self.work / "daemon.json").write_text(json.dumps({}))

    def _flags(self) -> list[str]:
        programs = unpack_programs()
        return [
            f"--host=unix://{self.work}/docker.sock",
            f"--data-root={self.work}/data",
            f"--config-file={self.work}/daemon.json",
            f"--init-path={programs}/usr/bin/docker-init",
            f"--userland-proxy-path={programs}/usr/sbin/docker-proxy",
            f"--cgroup-parent=/{self.work.name}",
            "--exec-opt=native.cgroupdriver=cgroupfs",
            "--storage-driver=overlay2",
            "--oom-score-adjust=0",
            f"--dns={_NAME_SERVER}",
            "--shutdown-timeout=90",
        ]

    def _answers(self) -> bool:
        if self._keeper is None or self._keeper.poll() is not None:
            raise EngineFailed(f"the engine has ended:\n{self.log_tail()}")
        try:
            self.docker("version", limit_seconds=20)
        except EngineFailed:
            return False
        return True


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    limit_seconds: float,
    every_seconds: float = _POLL_SECONDS,
) -> None:
    """Return when ``condition`` is true; fail with ``what`` after the limit."""
    pause, give_up_at = threading.Event(), time.monotonic() + limit_seconds
    while not condition():
        if time.monotonic() > give_up_at:
            raise EngineFailed(f"not within {limit_seconds:.0f} s: {what}")
        pause.wait(every_seconds)


def _enter_network(descriptor: int) -> None:
    """Call setns(2), which Python has from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise EngineFailed(f"setns failed: {os.strerror(ctypes.get_errno())}")
