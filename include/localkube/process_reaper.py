"""Kill sessions when the pipe on standard input closes, that is when the owner dies.

The parent-death signal of ``process_launcher`` reaches direct children only; this reaches the
processes that those have started, in other process groups of the session too (an Airflow task has
its own). Lines on standard input: ``+PGID`` of a session's leader to watch, ``-PGID`` to forget.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Collect groups until end of file, then kill those left."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        change, group = line[0], int(line[1:])
        if change == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for number in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - pathlib costs 10 ms
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(number)) in groups:
                os.kill(int(number), signal.SIGKILL)


main()
