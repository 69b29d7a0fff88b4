"""The warm interpreter: import programs once, then fork one pod process per request.

usage: python -m localkube.warm_start.interpreter CHANNEL_FD OWNER_PID MODULE…

It has one thread and no open clients, so a fork of it is equivalent to a fresh interpreter. If that
does not hold, it reports ``unfit`` and ends. Two forks make a pod's process. The process in between
ends at once, so the kernel gives the pod to the nearest ancestor that adopts orphans: localkube.
localkube is then its parent, as after an exec, and the end of the warm interpreter ends no pod. A
pod's process begins when localkube, which knows its pid by then, releases it. Without a release it
ends.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import sysconfig
import types
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localkube.processes import take_niceness

# Settings for libraries that would start a thread at import. The programs call no BLAS and use
# Arrow's default pool, which is not jemalloc.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}

_DESCRIPTORS = 3  # of a request: the request's text, the log, the release pipe


def main() -> None:
    """Warm up, serve until the channel closes; in a fork, run the pod's program, then return."""
    channel, owner_pid = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    with warnings.catch_warnings():  # filters set by the imports must not reach the pods
        _warm_up(sys.argv[3:])
    unfit = _unfit()
    if unfit:
        _say(channel, unfit=unfit)
        sys.exit(0)
    sources = _source_times()
    gc.collect()
    gc.freeze()  # a collection in a pod would write to every shared page, and so copy it
    _say(channel, warm=True)
    request = _serve(channel, owner_pid, sources)
    become_pod(request)


def _warm_up(modules: list[str]) -> None:
    os.environ.update(_ONE_THREAD)
    for name in modules:
        module = importlib.import_module(name.removesuffix(".*"))
        for inner in pkgutil.iter_modules(module.__path__) if name.endswith(".*") else ():
            if inner.name != "__main__":
                importlib.import_module(f"{module.__name__}.{inner.name}")


def _unfit() -> str:
    """Return why a fork of this process would differ from an exec; empty if it would not."""
    threads = [
        (task / "comm").read_text(encoding="utf-8").strip()
        for task in Path("/proc/self/task").iterdir()
    ]
    if len(threads) != 1:
        return f"threads run after the imports: {', '.join(threads)}"
    try:
        dress_up(sys.orig_argv, dict(os.environ))
    except OSError as error:
        return f"a process cannot show a pod's command and environment here: {error.strerror}"
    return ""


def _source_times() -> dict[str, int]:
    """Return when each loaded source was written: a pod must run the current files."""
    installed = tuple(set(sysconfig.get_paths().values()))
    files = {str(getattr(module, "__file__", None) or "") for module in [*sys.modules.values()]}
    sources = (file for file in files if file.startswith("/") and not file.startswith(installed))
    return {file: os.stat(file).st_mtime_ns for file in sources}  # noqa: PTH116


def _serve(channel: socket.socket, owner_pid: int, sources: dict[str, int]) -> PodRequest:
    """Fork for each request; return in the forks only."""
    while True:
        signal_byte, descriptors, _, _ = socket.recv_fds(channel, 1, _DESCRIPTORS)
        if not signal_byte:
            sys.exit(0)
        try:
            if _source_times() != sources:
                _say(channel, stale=True)
                sys.exit(0)
            text, log, go = descriptors
            with os.fdopen(os.dup(text), "rb") as file:
                fields: dict[str, Any] = json.loads(file.read())
            request = PodRequest(**fields, owner_pid=owner_pid, log=log, go=go)
            pid = _fork_orphan()
        except OSError as error:
            _say(channel, failed=str(error))
        else:
            if pid == 0:
                channel.close()  # an open copy would hide the end of the warm interpreter
                return request
            _say(channel, pid=pid)
        for descriptor in descriptors:
            os.close(descriptor)


def _fork_orphan() -> int:
    """Return the grandchild's pid, 0 in the grandchild; localkube is then its parent.

    :raises OSError: no process could be created.
    """
    read_end, write_end = os.pipe()
    between = os.fork()
    if between == 0:
        os.close(read_end)
        _leave_grandchild(write_end)
        return 0
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        number = answer.read()
    os.waitpid(between, 0)
    if not number:
        raise OSError("the second fork failed")
    return int(number)


def _leave_grandchild(write_end: int) -> None:
    """Fork again and end here; return in the grandchild."""
    try:
        pid = os.fork()
    except OSError:
        os._exit(1)
    if pid:
        os.write(write_end, str(pid).encode())
        os._exit(0)
    os.close(write_end)


def _say(channel: socket.socket, **what: object) -> None:
    channel.send(json.dumps(what).encode())


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


if __name__ == "__main__":
    main()
