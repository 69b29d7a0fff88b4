"""A program that prints, as JSON, everything that its start gave it; or ends as it is told."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import locale
import os
import resource
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

_STATUS = ("Umask", "Threads", "SigBlk", "SigIgn", "SigCgt", "ShdPnd", "NoNewPrivs", "Seccomp")
_STATUS_PREFIXES = ("Cap", "Uid", "Gid", "Groups", "Cpus_allowed")


def report() -> dict[str, Any]:
    """Return what a program can know of its start, except for its own number."""
    libc = ctypes.CDLL(None)
    death_signal = ctypes.c_int()
    libc.prctl(2, ctypes.byref(death_signal), 0, 0, 0)
    is_subreaper = ctypes.c_int()
    libc.prctl(37, ctypes.byref(is_subreaper), 0, 0, 0)
    main = sys.modules["__main__"]
    mask = os.umask(0)
    os.umask(mask)
    own = os.getpid()
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "executable": sys.executable,
        "prefix": [sys.prefix, sys.base_prefix],
        "path": sys.path,
        "flags": str(sys.flags),
        "main": [main.__name__, main.__file__, main.__spec__.name, main.__package__],
        "main_names": sorted(name for name in vars(main) if name.startswith("__")),
        "environ": dict(os.environ),
        "getenv": ctypes.CDLL(None).getenv(b"PROBE_ONE") != 0,
        "shown_environ": Path("/proc/self/environ").read_bytes().decode(errors="replace"),
        "shown_command": Path("/proc/self/cmdline").read_bytes().decode(errors="replace"),
        "shown_name": Path("/proc/self/comm").read_text(),
        "cwd": str(Path.cwd()),
        "umask": mask,
        "status": _status(),
        "handlers": {int(s): str(signal.getsignal(s)) for s in signal.valid_signals()},
        "mask": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
        "timers": [signal.getitimer(kind) for kind in (0, 1, 2)],
        "limits": {
            name: resource.getrlimit(getattr(resource, name))
            for name in dir(resource)
            if name.startswith("RLIMIT_")
        },
        "descriptors": _descriptors(),
        "streams": [_stream(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "autogroup": _text("/proc/self/autogroup").rpartition(" ")[2],
        "scheduler": [os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))],
        "oom_score_adj": _text("/proc/self/oom_score_adj"),
        "coredump_filter": _text("/proc/self/coredump_filter"),
        "timerslack": _text("/proc/self/timerslack_ns"),
        "cgroup": _text("/proc/self/cgroup"),
        "parent": os.getppid(),
        "leads_group": os.getpgid(0) == own,
        "leads_session": os.getsid(0) == own,
        "death_signal": death_signal.value,
        "is_subreaper": is_subreaper.value,
        "dumpable": libc.prctl(3, 0, 0, 0, 0),
        "children": Path(f"/proc/self/task/{own}/children").read_text()
        if Path(f"/proc/self/task/{own}/children").exists()
        else "",
        "python_threads": threading.active_count(),
        "is_main_thread": threading.current_thread() is threading.main_thread(),
        "locale": [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()],
        "time_zone": time.tzname,
        "warnings": [str(each) for each in warnings.filters],
        "gc": [gc.isenabled(), gc.get_threshold()],
        "switch_interval": sys.getswitchinterval(),
        "recursion_limit": sys.getrecursionlimit(),
        "has_faulthandler": faulthandler.is_enabled(),
        "used_cpu_seconds_below": time.process_time() < 60,
    }


def _text(path: str) -> str:
    return Path(path).read_text().strip() if Path(path).exists() else ""


def _status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {
        name: value.strip()
        for name, value in fields.items()
        if name in _STATUS or name.startswith(_STATUS_PREFIXES)
    }


def _descriptors() -> dict[str, list[str]]:
    found = {}
    for link in [*Path("/proc/self/fd").iterdir()]:
        try:
            target = str(link.readlink())
        except OSError:  # the listing's own
            continue
        info = Path(f"/proc/self/fdinfo/{link.name}").read_text().split()
        found[link.name] = [target, info[info.index("flags:") + 1]]
    return found


def _stream(stream: Any) -> list[Any]:
    return [
        stream.name,
        stream.mode,
        stream.encoding,
        stream.errors,
        stream.line_buffering,
        stream.write_through,
        stream.fileno(),
        stream.isatty(),
    ]


def main() -> int:
    """Report, or end in the way that the first argument names."""
    how = sys.argv[1]
    if how == "report":
        sys.stdout.write(json.dumps(report()) + "\n")
        return 0
    if how == "return":
        return 3
    if how == "exit text":
        sys.exit("said at the end")
    if how == "raise":
        raise RuntimeError("raised")
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "SIGTERM":
        os.kill(os.getpid(), signal.SIGTERM)
    if how == "random":
        import random
        import uuid

        sys.stdout.write(f"{random.random()} {uuid.uuid4()}\n")
    if how == "stays":
        sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
