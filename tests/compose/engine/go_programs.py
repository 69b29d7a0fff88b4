"""Build docker compose and Prometheus from their Go modules; nothing is done the second time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.rig.go_command import go, module_folder
from tests.compose.engine.versions import cache_folder, pinned

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class _Program:
    """A program of a Go module, with the variable that its own build sets to the version."""

    name: str
    module: str
    module_version: str
    package: str
    version_variable: str
    version: str


def _programs() -> tuple[_Program, ...]:
    versions = pinned()
    compose, prometheus = "github.com/docker/compose/v2", "github.com/prometheus"
    return (
        _Program(
            "docker-compose", compose, versions.compose, "./cmd",
            f"{compose}/internal.Version", f"v{versions.compose}",
        ),
        _Program(
            "prometheus", f"{prometheus}/prometheus", versions.prometheus_module,
            "./cmd/prometheus", f"{prometheus}/common/version.Version", versions.prometheus,
        ),
    )  # fmt: skip


def build_go_programs(say: Say) -> None:
    """Build the programs that are missing.

    :raises BuildFailed: a go command failed.
    """
    folder = cache_folder() / "go"
    folder.mkdir(exist_ok=True)
    for program in _programs():
        if not (folder / program.name).exists():
            began = time.monotonic()
            _build(program, folder)
            say(f"built {program.name} in {time.monotonic() - began:.0f} s")


def go_program(name: str) -> Path:
    """Return the path of ``docker-compose`` or ``prometheus``."""
    return cache_folder() / "go" / name


def _build(program: _Program, folder: Path) -> None:
    """Build where the module cache has the source: `go install` takes no module that replaces."""
    source = module_folder(program.module, program.module_version)
    linker = f"-ldflags=-s -w -X {program.version_variable}={program.version}"
    with tempfile.TemporaryDirectory(dir=folder) as made:
        result = Path(made) / program.name
        go(
            ["build", "-mod=readonly", "-trimpath", linker, "-o", str(result), program.package],
            source,
        )
        result.rename(folder / program.name)
