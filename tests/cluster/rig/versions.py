"""The pinned versions of the rig and the folder that holds what was built from them."""

from __future__ import annotations

import hashlib
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("versions.toml")
_BUILD = Path(__file__).with_name("binaries.py")


@dataclass(frozen=True, slots=True)
class Versions:
    """Version numbers without a leading v."""

    go: str
    kubernetes: str
    etcd: str
    keda: str
    metrics_server: str


def pinned() -> Versions:
    """Return the versions of versions.toml."""
    return Versions(**tomllib.loads(_FILE.read_text(encoding="utf-8")))


def cache_folder() -> Path:
    """Return the folder of what was built, made when it is not there.

    Other versions or another recipe get another folder.
    """
    key = hashlib.sha256(_FILE.read_bytes() + _BUILD.read_bytes()).hexdigest()[:12]
    named = os.environ.get("LAGBENCH_RIG_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = (Path(named) if named else Path(base) / "lagbench" / "kubernetes") / key
    folder.mkdir(parents=True, exist_ok=True)
    return folder
