"""Locate the user's cache and lock its parts, so that one process at a time fills a part."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from lagbench.errors import NotReady

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
