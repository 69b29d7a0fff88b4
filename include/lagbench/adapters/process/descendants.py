"""The processes below this one: adopt those whose parent has ended, and kill them all."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time

import psutil

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of orphans among its descendants.

    :raises OSError: the kernel rejects the call.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def kill_descendants(*, within_seconds: float) -> bool:
    """Kill every process below this one and wait for it; return whether none is left.

    It kills also processes that start meanwhile. An orphan is below this process only if it was
    orphaned after ``adopt_orphans``.
    """
    give_up_at = time.monotonic() + within_seconds
    while below := psutil.Process().children(recursive=True):
        left_seconds = give_up_at - time.monotonic()
        if left_seconds <= 0:
            return False
        for process in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(below, timeout=left_seconds)
    return True
