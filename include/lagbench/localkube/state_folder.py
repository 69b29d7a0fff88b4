"""Manage the state folder of a localkube: its single owner, address and version."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from lagbench.errors import NotReady
from lagbench.localkube.kubeconfig import write_private

INFO_FILE = "localkube.json"
_LOCK_FILE = "localkube.lock"
_VERSION_FILE = "resource-version"
# After a restart, versions start this far above the last ones written, so that no client takes a
# new object for one that it knew before the restart.
_VERSION_GAP = 1_000_000


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Own ``folder`` during the block; the kernel ends the ownership with the process.

    :raises NotReady: another live localkube owns it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / _LOCK_FILE).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise NotReady(
                f"another localkube owns {folder} ({_describe(folder)}); stop it first, or give "
                "another --state-dir"
            ) from error
        yield


def _describe(folder: Path) -> str:
    try:
        info = json.loads((folder / INFO_FILE).read_text())
    except (OSError, ValueError):
        return "it is starting or stopping"
    return f"pid {info.get('pid')}, port {info.get('port')}"


def announce(folder: Path, *, port: int) -> None:
    """Write how to reach this process: pid, port and the process's start time."""
    info = {"pid": os.getpid(), "port": port, "started_at": psutil.Process().create_time()}
    write_private(folder / INFO_FILE, json.dumps(info).encode())


def withdraw(folder: Path) -> None:
    """Delete the announcement."""
    (folder / INFO_FILE).unlink(missing_ok=True)


def next_first_version(folder: Path) -> int:
    """Return the first resourceVersion, above those of every earlier localkube in ``folder``."""
    file = folder / _VERSION_FILE
    try:
        version = int(file.read_text()) + _VERSION_GAP
    except (OSError, ValueError):
        version = 1
    write_private(file, str(version).encode())
    return version
