"""Tie this process to its parent's life, then become the command given.

Run by file path with ``python -I -S`` (15 ms): a fork hook would not be safe in a threaded
parent, and ``setpriv --pdeathsig`` is not on every machine.

usage: process_launcher.py PARENT_PID COMMAND [ARG ...]
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the parent-death signal, make an own session, exec."""
    parent_pid, command = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent_pid:  # the parent died before the prctl took hold
        os._exit(1)
    if os.getpid() != os.getsid(0):
        os.setsid()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]!r}: {error.strerror}\n")
        os._exit(127)


main()
