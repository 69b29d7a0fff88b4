"""The warm interpreter: import our programs once, then fork one pod process per request.

usage: python -m lagbench.localkube.warm_start.interpreter CHANNEL_FD OWNER_PID

It has one thread and no open clients, so a fork of it is equivalent to a fresh interpreter. If that
does not hold, it reports ``unfit`` and ends. Two forks make a pod's process. The process in between
ends at once, so the kernel gives the pod to the nearest ancestor that adopts orphans: localkube.
localkube is then its parent, as after an exec, and the end of the warm interpreter ends no pod. A
pod's process begins when localkube, which knows its pid by then, releases it. Without a release it
ends.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import socket
import sys
import warnings
from pathlib import Path

import lagbench
from lagbench.localkube.warm_start.pod_process import (
    PodRequest,
    become_pod,
    dress_up,
    read_request,
)

# Programs that run in dozens of pods, or that have to start at once. The other programs import the
# missing modules in their own process: a fork copies the page tables of everything that is loaded
# here (the Kubernetes client is half of it), and gRPC must not be forked.
_PACKAGES = ("lagbench.programs.consumer", "lagbench.programs.producer")
# Modules that they import only when they run.
_LATE = ("lagbench.adapters.kafka.telemetry_log", "http.server", "numpy.random")
# Settings for libraries that would start a thread at import. Our programs call no BLAS and use
# Arrow's default pool, which is not jemalloc.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
_DESCRIPTORS = 3  # of a request: the request's text, the log, the release pipe


def main() -> None:
    """Warm up, serve until the channel closes; in a fork, run the pod's program, then return."""
    channel, owner_pid = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    with warnings.catch_warnings():  # filters set by the imports must not reach the pods
        _warm_up()
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


def _warm_up() -> None:
    os.environ.update(_ONE_THREAD)
    for package in map(importlib.import_module, _PACKAGES):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)


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
    root = str(Path(lagbench.__file__).parent)
    files = {str(getattr(module, "__file__", None)) for module in [*sys.modules.values()]}
    return {file: os.stat(file).st_mtime_ns for file in files if file.startswith(root)}  # noqa: PTH116


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
            request = read_request(descriptors, owner_pid)
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


if __name__ == "__main__":
    main()
