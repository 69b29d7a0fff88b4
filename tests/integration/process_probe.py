"""A program that prints, as JSON, everything that its start gave it; or ends as it is told."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import locale
import os
import re
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

# What /proc/self/status says of a process itself, not of its memory and its luck.
_OF_STATUS = re.compile(
    "(Umask|Threads|Sig...|ShdPnd|NoNewPrivs|Seccomp|Cap...|Uid|Gid|Groups|Cpus_allowed.*):"
)
_FILES = (
    *("environ", "cmdline", "comm", "limits", "oom_score_adj", "coredump_filter", "cgroup"),
    "timerslack_ns",
)


def report() -> dict[str, Any]:
    """Return what a program can know of its start, except for its own number."""
    libc = ctypes.CDLL(None)
    death_signal, is_subreaper = ctypes.c_int(), ctypes.c_int()
    libc.prctl(2, ctypes.byref(death_signal), 0, 0, 0)
    libc.prctl(37, ctypes.byref(is_subreaper), 0, 0, 0)
    main, own = sys.modules["__main__"], os.getpid()
    status = Path("/proc/self/status").read_text().splitlines()
    return {
        **{f"proc {name}": _text(name) for name in _FILES},
        "children": _text(f"task/{own}/children"),
        "status": [line for line in status if _OF_STATUS.match(line)],
        "autogroup": _text("autogroup").rpartition(" ")[2],
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "executable": [sys.executable, sys.prefix, sys.base_prefix],
        "path": sys.path,
        "flags": str(sys.flags),
        "main": [main.__name__, main.__file__, main.__spec__.name, main.__package__],
        "main_names": sorted(name for name in vars(main) if name.startswith("__")),
        "environ": dict(os.environ),
        "getenv": libc.getenv(b"PROBE_ONE") != 0,
        "cwd": str(Path.cwd()),
        "handlers": {int(s): str(signal.getsignal(s)) for s in signal.valid_signals()},
        "timers": [signal.getitimer(kind) for kind in (0, 1, 2)],
        "descriptors": _descriptors(),
        "streams": [_stream(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": [os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))],
        "parent": os.getppid(),
        "leads": [os.getpgid(0) == own, os.getsid(0) == own],
        "death_signal": death_signal.value,
        "is_subreaper": is_subreaper.value,
        "dumpable": libc.prctl(3, 0, 0, 0, 0),
        "threads": [threading.active_count(), threading.current_thread().name],
        "locale": [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(), time.tzname],
        "warnings": [str(each) for each in warnings.filters],
        "gc": [gc.isenabled(), gc.get_threshold()],
        "settings": [sys.getswitchinterval(), sys.getrecursionlimit(), faulthandler.is_enabled()],
        "used_cpu_seconds_below": time.process_time() < 60,
    }


def _text(name: str) -> str:
    path = Path(f"/proc/self/{name}")
    return path.read_bytes().decode(errors="replace").strip() if path.exists() else ""


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
    said = [stream.name, stream.mode, stream.encoding, stream.errors, stream.fileno()]
    return [*said, stream.line_buffering, stream.write_through, stream.isatty()]


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
    if how.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[how])
    if how == "random":
        import random
        import uuid

        sys.stdout.write(f"{random.random()} {uuid.uuid4()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
