"""Kill process groups when the pipe on standard input closes, that is when the owner dies.

The parent-death signal of ``process_launcher`` reaches direct children only; this reaches the
processes that those have started. Lines on standard input: ``+PGID`` to watch, ``-PGID`` to forget.
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


main()
