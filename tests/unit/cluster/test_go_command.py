"""Which go builds the rig: the machine's, or one that it fetches as a module."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.rig import go_command
from tests.cluster.rig.versions import pinned


@pytest.fixture(autouse=True)
def forgets_the_go_that_it_found() -> Iterator[None]:
    """Let each test find go again."""
    go_command._sufficient_go.cache_clear()
    yield
    go_command._sufficient_go.cache_clear()


def machine_with_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch, version: str, modules: Path
) -> Path:
    """Put a ``go`` on the PATH that reports ``version`` and has every module in ``modules``."""
    command = folder / "go"
    answer = json.dumps({"Dir": str(modules)})
    command.write_text(
        f"#!/bin/sh\ncase $1 in version) echo 'go version {version} linux/amd64';;\n"
        f"mod) echo \"$4\" >'{folder}/asked'; echo '{answer}';; esac\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return command


@pytest.mark.parametrize("version", ["go1.21.0", "go1.26.8", "go2.0", "devel +abc"])
def test_a_go_that_fetches_newer_ones_itself_is_taken(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 1.21 on the machine's own go is the one."""
    command = machine_with_go(tmp_path, monkeypatch, version, tmp_path)

    assert go_command._sufficient_go() == str(command)


def test_debians_go_fetches_the_pinned_one_and_makes_it_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that a module cannot hold as they are get their names and rights."""
    toolchain = tmp_path / "toolchain"
    for file in ("bin/go", "bin/gofmt", "pkg/tool/linux_amd64/compile", "src/_go.mod"):
        (toolchain / file).parent.mkdir(parents=True, exist_ok=True)
        (toolchain / file).write_text("module std")
    machine_with_go(tmp_path, monkeypatch, "go1.19.8", toolchain)

    found = go_command._sufficient_go()

    wanted = f"golang.org/toolchain@v0.0.1-go{pinned().go}.linux-amd64"
    assert (tmp_path / "asked").read_text().strip() == wanted
    assert found == str(toolchain / "bin" / "go")
    assert os.access(toolchain / "pkg/tool/linux_amd64/compile", os.X_OK)
    assert os.access(found, os.X_OK)
    assert (toolchain / "src" / "go.mod").read_text() == "module std"


def test_no_go_is_reported_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names Debian's package."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(go_command.BuildFailed, match="golang-go"):
        go_command.module_folder("example.org/a", "1.0.0")
