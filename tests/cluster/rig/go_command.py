"""The go command: the machine's own, or a newer one that it fetches as a module.

Since 1.21 go fetches by itself what a module asks for. Debian 12 has 1.19, which can still
download that very module; only what go does afterwards is then done here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.cluster.rig.versions import pinned

_FETCHES_ITSELF = (1, 21)
_TOOLCHAIN = "golang.org/toolchain"
_PLATFORM = "linux-amd64"
# A compiler's heap may grow to three times what lives, not to twice: etcd, cold, took a fifth less
# processor time with 400 and twice the memory, so the middle.
_COLLECT_AT = "200"
_STEP_LIMIT_SECONDS = 3600  # all of Kubernetes on two cores that others use as well


class BuildFailed(RuntimeError):
    """A Go command failed; the message has its last lines."""


def go(arguments: Sequence[str], folder: Path) -> str:
    """Run a go command in ``folder`` and return what it printed."""
    return _run(_sufficient_go(), arguments, folder)


def module_folder(module: str, version: str) -> Path:
    """Return a module's folder in Go's cache, fetched when it is not there."""
    return _fetched(_sufficient_go(), module, f"v{version}")


@cache
def _sufficient_go() -> str:
    found = shutil.which("go")
    if found is None:
        raise BuildFailed("Go is not installed: apt-get install golang-go, or put go on the PATH")
    if _version(_run(found, ["version"], Path.cwd())) >= _FETCHES_ITSELF:
        return found
    return str(_runnable(_fetched(found, _TOOLCHAIN, f"v0.0.1-go{pinned().go}.{_PLATFORM}")))


def _version(text: str) -> tuple[int, int]:
    """Return the release of a line like ``go version go1.19.8 linux/amd64``; a new one is none."""
    numbers = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else _FETCHES_ITSELF


def _runnable(toolchain: Path) -> Path:
    """Make a toolchain of the module cache runnable; returns its go.

    A module can hold neither a go.mod below its own nor the right to execute: the release has
    ``_go.mod`` instead, and go sets the rights as well when it fetches one.
    """
    command = toolchain / "bin" / "go"
    if not os.access(command, os.X_OK):
        for renamed in toolchain.rglob("_go.mod"):
            shutil.copyfile(renamed, renamed.with_name("go.mod"))
        # Its own right comes last: it says that everything else is done.
        for program in [*(toolchain / "pkg" / "tool").rglob("*"), command.with_name("gofmt")]:
            program.chmod(0o755)
        command.chmod(0o755)
    return command


def _fetched(command: str, module: str, version: str) -> Path:
    answer = _run(command, ["mod", "download", "-json", f"{module}@{version}"], Path.cwd())
    return Path(json.loads(answer)["Dir"])


def _run(command: str, arguments: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        [command, *arguments],
        cwd=folder,
        env={"GOGC": _COLLECT_AT, **os.environ, "GOFLAGS": "", "GOTOOLCHAIN": "auto"},
        capture_output=True,
        text=True,
        timeout=_STEP_LIMIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[-20:])
        raise BuildFailed(f"go {' '.join(arguments[:2])} in {folder.name} failed:\n{tail}")
    return done.stdout
