"""The pinned versions of the rig and the folder that holds what was built from them."""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("versions.toml")
_BUILD = Path(__file__).with_name("binaries.py")
_CHOSEN = {"kubernetes": "KUBERNETES", "keda": "KEDA"}


@dataclass(frozen=True, slots=True)
class Versions:
    """Version numbers without a leading v."""

    go: str
    kubernetes: str
    etcd: str
    keda: str
    metrics_server: str


def pinned() -> Versions:
    """Return the versions of versions.toml, with those that the environment chooses."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    for program, variable in _CHOSEN.items():
        offered = table[program]
        minor = os.environ.get(variable) or next(iter(offered))
        if minor not in offered:
            sys.stderr.write(f"{variable}={minor}: allowed: {', '.join(offered)}\n")
            sys.exit(2)
        table[program] = offered[minor]
    return Versions(**table)


def cache_folder() -> Path:
    """Return the folder of what was built, made when it is not there.

    Other versions or another recipe get another folder; what two have in common comes from Go's
    own cache.
    """
    recipe = repr(pinned()).encode() + _BUILD.read_bytes()
    key = hashlib.sha256(recipe).hexdigest()[:12]
    named = os.environ.get("LAGBENCH_RIG_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = (Path(named) if named else Path(base) / "lagbench" / "kubernetes") / key
    folder.mkdir(parents=True, exist_ok=True)
    return folder
