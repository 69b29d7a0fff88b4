"""A fork of the warm interpreter is what an exec would have made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lagbench.project import PROJECT_ROOT

pytestmark = pytest.mark.slow

_BOTH_WAYS = "tests.integration.start_both_ways"
WAYS = ("return", "exit text", "raise", "interrupt", "SIGKILL", "SIGTERM")


def run_script(arguments: list[str], include: Path, environment: dict[str, str]) -> Any:
    """Return what a module of the tests prints, with lagbench from ``include``."""
    paths = os.pathsep.join([str(PROJECT_ROOT), str(include)])
    ended = subprocess.run(
        [sys.executable, "-m", *arguments],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def both_ways(
    folder: Path, *ways: str, niceness: int = 0, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return what became of the probe, exec'd and forked, for each of ``ways``."""
    found: dict[str, Any] = run_script(
        [_BOTH_WAYS, str(folder), str(niceness), *ways], PROJECT_ROOT / "include", environment or {}
    )
    assert all(
        each["fork"]["is_forked"] and not each["exec"]["is_forked"] for each in found.values()
    )
    return found


@pytest.mark.parametrize(
    ("niceness", "environment"),
    [(0, {"LANG": "C.UTF-8"}), (-10, {"LANG": "", "LC_ALL": "", "TZ": "Asia/Tokyo"})],
    ids=["plain", "first, without a locale"],
)
def test_a_fork_has_what_an_exec_gives(
    tmp_path: Path, niceness: int, environment: dict[str, str]
) -> None:
    """Arguments, environment, folder, signals, limits, descriptors, session and kin are equal."""
    found = both_ways(tmp_path, "report", niceness=niceness, environment=environment)["report"]
    execed, forked = (json.loads(found[how]["output"]) for how in ("exec", "fork"))

    assert forked.keys() == execed.keys()
    differing = {
        name: (execed[name], forked[name]) for name in execed if execed[name] != forked[name]
    }
    assert differing == {}
    assert forked["argv"][1:] == ["report", "", "an ö", "--flag=1 2"]
    assert sorted(forked["descriptors"]) == ["0", "1", "2"]
    assert forked["leads"] == [True, True]
    assert forked["death_signal"] == 9


def test_a_fork_ends_as_an_exec_does(tmp_path: Path) -> None:
    """Codes, deaths by a signal and last words are equal; tracebacks end in the same line."""
    for how, found in both_ways(tmp_path, *WAYS).items():
        execed, forked = found["exec"], found["fork"]

        assert forked["code"] == execed["code"], how
        assert forked["output"].splitlines()[-1:] == execed["output"].splitlines()[-1:], how


def test_forks_draw_numbers_of_their_own(tmp_path: Path) -> None:
    """No fork has the random numbers of another one, nor its identifiers."""
    numbers = set()
    for _ in range(2):
        numbers.add(both_ways(tmp_path, "random")["random"]["fork"]["output"])

    assert len(numbers) == 2


def test_a_pod_runs_the_sources_as_they_are_now(tmp_path: Path) -> None:
    """After an edit the next pod is exec'd; forks come again from an interpreter warmed again."""
    include = tmp_path / "include"
    for name in ("lag_scaler", "lagbench", "localkube", "pod_program"):
        shutil.copytree(PROJECT_ROOT / "include" / name, include / name)

    forked = run_script([_BOTH_WAYS, str(tmp_path), "0", "edit"], include, {})

    assert forked == [True, False, True]
