"""``python -m tests.compose.engine.keeper WORK [DOCKERD ARGUMENTS]``: one life of an engine.

The engine runs in namespaces of its own and ends with this process. This process ends when its
standard input does, so also when its owner is killed. Then it removes what namespaces do not:
the engine's control groups, and the folder WORK if the owner did not say ``keep``.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
from pathlib import Path

import psutil

from localkube.processes import start_tied
from tests.compose.engine.needs import NAMESPACES

KEEP, REMOVE = b"keep\n", b"remove\n"
# Stopping all containers takes as long as the slowest of them may take: 60 s, see compose.
STOP_LIMIT_SECONDS = 150.0
_LOOK_SECONDS = 0.2
_TAIL_BYTES = 4000
# What the engine changes below /run and the addresses it uses go with the namespaces.
_BEGIN = """
mount -t tmpfs tmpfs /run
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
exec dockerd "$@"
"""


def control_groups(name: str) -> list[Path]:
    """Return the folders of a control group and of all below it, the deepest first."""
    root = Path("/sys/fs/cgroup")
    tops = [root / name, *(controller / name for controller in root.iterdir())]
    found = [below for top in tops if top.is_dir() for below in (top, *top.rglob("*"))]
    return sorted({p for p in found if p.is_dir()}, key=lambda p: len(p.parts), reverse=True)


def remove_control_groups(name: str) -> None:
    """Remove an engine's control groups; those that still have a process stay."""
    for folder in control_groups(name):
        with contextlib.suppress(OSError):
            folder.rmdir()


def main(work: Path, arguments: list[str]) -> int:
    """Run the engine until it ends or the owner wants no more; return its exit code."""
    command = ["unshare", *NAMESPACES, "--", "sh", "-ec", _BEGIN, "sh", *arguments]
    with (work / "dockerd.log").open("ab") as log:
        process = start_tied(command, log=log)
    said = b""
    while process.poll() is None:
        if select.select([sys.stdin], [], [], _LOOK_SECONDS)[0]:
            said = os.read(sys.stdin.fileno(), 64)
            break
    if process.poll() is None:
        if said:  # else nobody is left to wait for a gentle end
            _ask_to_end(process.pid)
        process.kill()
    else:  # it ended by itself: nobody can read its log later
        sys.stderr.buffer.write((work / "dockerd.log").read_bytes()[-_TAIL_BYTES:])
        sys.stderr.flush()
    code = process.wait()
    _wait_for_all_of(work)
    remove_control_groups(work.name)
    if said != KEEP:
        shutil.rmtree(work, ignore_errors=True)
    return code


def _ask_to_end(unshare: int) -> None:
    """Let the engine stop its containers; it is the first process of its namespace."""
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(unshare).children()
        for process in first:
            process.terminate()
        psutil.wait_procs(first, timeout=STOP_LIMIT_SECONDS)


def _wait_for_all_of(work: Path) -> None:
    """Wait for the kernel: who was killed is in a control group until it is gone."""
    members = set()
    for folder in control_groups(work.name):
        with contextlib.suppress(OSError):
            members |= {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
    processes = []
    for pid in members:
        with contextlib.suppress(psutil.NoSuchProcess, ValueError):
            processes.append(psutil.Process(pid))
    psutil.wait_procs(processes, timeout=30)


if __name__ == "__main__":
    for _ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(_ignored, signal.SIG_IGN)  # the owner's end is the only one
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
