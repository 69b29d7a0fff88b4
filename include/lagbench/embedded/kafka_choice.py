"""Decide between the embedded broker and a cluster that the environment names."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lagbench.embedded.child_server import free_port
from lagbench.errors import NotReady, WrongInput
from localkube.ports import LOOPBACK, is_free
from pod_program.kafka_settings import SERVERS, settings_of_connection

SERVERS_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
CONNECTION_VARIABLE = "AIRFLOW_CONN_KAFKA_DEFAULT"
PORT_VARIABLE = "LAGBENCH_KAFKA_PORT"


@dataclass(frozen=True, slots=True)
class ForeignCluster:
    """A Kafka that lagbench did not start."""

    settings: dict[str, str] = field(repr=False)  # may hold a password

    @property
    def bootstrap_servers(self) -> str:
        """Its addresses."""
        return self.settings[SERVERS]


def foreign_cluster(port_file: Path) -> ForeignCluster | None:
    """Return the cluster that KAFKA_BOOTSTRAP_SERVERS or the Airflow connection names.

    An earlier address of this state folder's own broker does not count: Airflow's processes have
    it in their environment, and they may start the bench again.
    """
    settings = named_settings()
    if settings is None:
        return None
    if settings[SERVERS] == f"{LOOPBACK}:{_remembered_port(port_file)}":
        return None
    return ForeignCluster(settings)


def embedded_port(port_file: Path) -> int:
    """Return the embedded broker's port: the requested one, the last one, or a free one.

    It stays the same across starts, so that addresses that others hold stay valid.
    """
    wanted = os.environ.get(PORT_VARIABLE)
    if wanted:
        if not re.fullmatch("[0-9]{1,5}", wanted) or not 1 <= int(wanted) <= 65_535:
            allowed = "a port number from 1 to 65535, or unset"
            raise WrongInput(
                where="environment", field=PORT_VARIABLE, value=wanted, allowed=allowed
            )
        port = int(wanted)
    else:
        remembered = _remembered_port(port_file)
        usable = remembered is not None and is_free(remembered)
        port = remembered if usable and remembered is not None else free_port()
    write_atomically(port_file, f"{port}\n")
    return port


def named_settings() -> dict[str, str] | None:
    """Return librdkafka's settings that the environment names; None: it names none.

    :raises WrongInput: the connection is not one of type ``kafka``, as JSON.
    """
    servers = os.environ.get(SERVERS_VARIABLE)
    if servers:
        return {SERVERS: servers}
    connection = os.environ.get(CONNECTION_VARIABLE, "")
    if not connection:
        return None
    return settings_of_connection(connection, where="environment", field=CONNECTION_VARIABLE)


def _remembered_port(port_file: Path) -> int | None:
    try:
        return int(port_file.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None


_RETRY_SECONDS = 0.1


def cache_dir() -> Path:
    """Return lagbench's folder in the user's cache (XDG_CACHE_HOME, else ~/.cache)."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "lagbench"


@contextlib.contextmanager
def exclusive(lock_path: Path, *, timeout_seconds: float, purpose: str) -> Iterator[None]:
    """Hold the file lock ``lock_path``; the kernel releases it when the process ends.

    A blocking flock has no timeout without a signal handler, so it is retried in short steps.
    """
    lock_path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + timeout_seconds
    with lock_path.open("a+b") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    message = (
                        f"cannot {purpose}: another process has held {lock_path} for "
                        f"{timeout_seconds:.0f} s; wait for it or end it, then try again"
                    )
                    raise NotReady(message) from error
                time.sleep(_RETRY_SECONDS)
        yield


def write_atomically(path: Path, content: str, *, mode: int = 0o644) -> None:
    """Replace ``path`` atomically: a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.touch(mode=0o600)  # the content may be a password: nobody else reads it at any time
    part.write_text(content, encoding="utf-8")
    part.chmod(mode)
    part.replace(path)
