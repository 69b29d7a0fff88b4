"""What an engine could leave on a machine, outside its own namespaces."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from tests.compose.engine.versions import cache_folder

_PREFIX = "lagbench-compose-"


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine's state, as far as an engine changes one.

    A network namespace without a process and without a mount is none any more.
    """

    links: frozenset[str]
    mounts: tuple[str, ...]
    control_groups: frozenset[str]
    processes: frozenset[int]
    folders: frozenset[str]

    @classmethod
    def now(cls) -> Self:
        """Look at the machine."""
        root, named = Path("/sys/fs/cgroup"), f"{_PREFIX}*"
        groups = {*root.glob(named), *root.glob(f"*/{named}")}
        return cls(
            links=frozenset(psutil.net_if_addrs()),
            mounts=tuple(sorted(Path("/proc/self/mounts").read_text().splitlines())),
            control_groups=frozenset(map(str, groups)),
            processes=frozenset(_running_from(cache_folder())),
            folders=frozenset(p.name for p in _temporary().glob(named)),
        )

    def left_since(self, before: Self) -> dict[str, list[object]]:
        """Return what is there now and was not before, by kind; empty when nothing is left."""
        kinds = ("links", "mounts", "control_groups", "processes", "folders")
        news = {k: set(getattr(self, k)) - set(getattr(before, k)) for k in kinds}
        return {kind: sorted(new, key=str) for kind, new in news.items() if new}


def _temporary() -> Path:
    return Path(tempfile.gettempdir())


def _running_from(folder: Path) -> set[int]:
    """Return the processes whose program is below ``folder``: others may have engines, too."""
    found = set()
    for pid in psutil.pids():
        try:
            program = Path(f"/proc/{pid}/exe").readlink()
        except OSError:  # it has ended, or is a thread of the kernel
            continue
        if program.is_relative_to(folder):
            found.add(pid)
    return found
