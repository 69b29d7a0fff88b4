"""The niceness of a process and of its session, as far as this machine allows it.

Where the kernel groups processes by session (``sched_autogroup_enabled``, the default of desktop
kernels and of many containers), niceness counts inside a session only, and the session's own is in
``/proc/PID/autogroup``. A pod is a session, so both are set. Below 0 takes root (CAP_SYS_NICE).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

CONTROL_PLANE = -5
"""localkube and what forks for it: three times the time of a pod that starts (sched(7))."""
COMES_FIRST = -10
"""Pods that the run depends on: nine times the time of another pod."""
ORDINARY = 0


def take_niceness(niceness: int) -> None:
    """Set this process's niceness and its session's; what is not allowed stays as it is."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness), encoding="ascii")
