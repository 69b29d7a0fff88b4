"""Turn a fork of the warm interpreter into the process that an exec would have made."""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import json
import os
import runpy
import signal
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lagbench.adapters.process.process_priority import take_niceness

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_MM, _PR_SET_MM_MAP = 1, 15, 35, 14
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.sbrk.restype = ctypes.c_void_p
_shown: list[ctypes.Array[ctypes.c_char]] = []  # the kernel reads from it until we end


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The process that a fork has to become, and the descriptors of the request."""

    command: list[str]  # of the form PYTHON -m MODULE ARGUMENT …
    executable: str  # the file that PYTHON is
    environment: dict[str, str]
    folder: str
    niceness: int
    owner_pid: int
    log: int
    go: int


def read_request(descriptors: list[int], owner_pid: int) -> PodRequest:
    """Return the request whose text is in the first of ``descriptors``.

    :raises OSError: it cannot be read.
    """
    text, log, go = descriptors
    with os.fdopen(os.dup(text), "rb") as file:
        fields: dict[str, Any] = json.loads(file.read())
    return PodRequest(**fields, owner_pid=owner_pid, log=log, go=go)


def become_pod(request: PodRequest) -> None:
    """Wait for the release, set everything that an exec would have set, run the program.

    The process ends if localkube does not release it or is dead.
    """
    if not os.read(request.go, 1):
        os._exit(0)
    os.setsid()
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != request.owner_pid:  # it died before the prctl took effect
        os._exit(1)
    take_niceness(request.niceness)  # the warm interpreter's own is the control plane's
    for number in (1, 2):
        os.dup2(request.log, number)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the descriptor of the listing
                os.close(int(name))
    os.chdir(request.folder)
    # If no locale is set, Python's start adds this variable to the environment (PEP 538).
    coerced = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}
    environment = {**request.environment, **coerced, **request.environment}
    os.environ.clear()
    os.environ.update(environment)
    dress_up(request.command, environment)
    shown_name = os.fsencode(Path(request.command[0]).name)
    _LIBC.prctl(_PR_SET_NAME, ctypes.c_char_p(shown_name), 0, 0, 0)
    sys.executable = request.executable
    sys.orig_argv = list(request.command)
    sys.argv = ["-m", *request.command[3:]]
    sys.path[0] = os.getcwd()  # noqa: PTH109 - as -m does
    fresh = types.ModuleType("__main__")
    fresh.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = fresh
    if "numpy" in sys.modules:  # the standard library's generator seeds itself anew after a fork
        sys.modules["numpy"].random.seed()
    # The interpreter's own code for ``-m``, which also handles SystemExit and tracebacks.
    runpy._run_module_as_main(request.command[2])  # type: ignore[attr-defined]  # noqa: SLF001


class _MemoryMap(ctypes.Structure):
    """prctl_mm_map: the addresses of the data that /proc shows of a process."""

    _names_ = (
        *("start_code", "end_code", "start_data", "end_data", "start_brk", "brk"),
        *("start_stack", "arg_start", "arg_end", "env_start", "env_end", "auxv"),
    )
    _fields_ = [
        *((name, ctypes.c_uint64) for name in _names_),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    ]


def dress_up(command: list[str], environment: dict[str, str]) -> None:
    """Make /proc show ``command`` and ``environment`` as this process's own.

    :raises OSError: the kernel lacks CONFIG_CHECKPOINT_RESTORE, which distributions set.
    """
    arguments = b"".join(os.fsencode(part) + b"\0" for part in command)
    variables = b"".join(os.fsencode(f"{k}={v}") + b"\0" for k, v in environment.items())
    block = ctypes.create_string_buffer(arguments + variables)
    _shown.append(block)
    start = ctypes.addressof(block)
    between, end = start + len(arguments), start + len(arguments) + len(variables)
    text = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2]
    stat = [int(field) if field.lstrip("-").isdigit() else 0 for field in text.split()]
    code, data, stack = stat[23:25], stat[42:45], stat[25]
    addresses = (*code, *data, _LIBC.sbrk(0), stack, start, between, between, end, 0)
    shown = _MemoryMap(*addresses, 0, 0xFFFFFFFF)
    if _LIBC.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(shown), ctypes.sizeof(shown), 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
