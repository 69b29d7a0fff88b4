"""The niceness of a process and of its session, as far as this machine allows it.

Where the kernel groups processes by session (``sched_autogroup_enabled``, the default of desktop
kernels and of many containers), niceness counts inside a session only, and the session's own is in
``/proc/PID/autogroup``. A pod is a session, so both are set. Below 0 takes root (CAP_SYS_NICE).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def take_niceness(niceness: int) -> None:
    """Set this process's niceness and its session's; what is not allowed stays as it is."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness), encoding="ascii")
