"""The pinned versions of the engine's programs and the folder that holds what was made of them."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lagbench.embedded.kafka_choice import cache_dir

_FILE = Path(__file__).with_name("versions.toml")
_RECIPES = ("versions.toml", "go_programs.py", "debian_programs.py")


@dataclass(frozen=True, slots=True)
class Versions:
    """Version numbers without a leading v."""

    compose: str
    prometheus: str
    prometheus_module: str


def pinned() -> Versions:
    """Return the versions of versions.toml."""
    return Versions(**tomllib.loads(_FILE.read_text(encoding="utf-8")))


def cache_folder() -> Path:
    """Return the folder of what was made, made when it is not there.

    Other versions or another recipe get another folder.
    """
    recipes = (_FILE.with_name(name).read_bytes() for name in _RECIPES)
    key = hashlib.sha256(b"".join(recipes)).hexdigest()[:12]
    folder = cache_dir() / "compose" / key
    folder.mkdir(parents=True, exist_ok=True)
    return folder
