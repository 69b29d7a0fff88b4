"""Tie this process to its parent's life, then become the command given.

It leads a session of its own, except with ``shared`` as the first argument.

Run by file path with ``python -I -S`` (15 ms): a fork hook would not be safe in a threaded
parent, and ``setpriv --pdeathsig`` is not on every machine.

usage: process_launcher.py [shared] PARENT_PID NICENESS|- COMMAND [ARG ...]
"""

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the parent-death signal, make an own session, take the niceness if allowed, exec."""
    arguments = sys.argv[1:]
    is_shared = arguments[0] == "shared"
    arguments = arguments[is_shared:]
    parent_pid, niceness, command = int(arguments[0]), arguments[1], arguments[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent_pid:  # the parent died before the prctl took hold
        os._exit(1)
    if not is_shared and os.getpid() != os.getsid(0):
        os.setsid()
    if niceness != "-":
        _take_niceness(int(niceness))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]!r}: {error.strerror}\n")
        os._exit(127)


def _take_niceness(niceness: int) -> None:
    """As ``processes`` does it; with -I -S that cannot be imported."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as group:  # noqa: PTH123
        group.write(str(niceness))


main()
