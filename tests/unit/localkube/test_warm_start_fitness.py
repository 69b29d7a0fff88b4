"""Which containers are forked, and which are exec'd as ever."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lagbench.localkube.node.pod_environment import LaunchPlan
from lagbench.localkube.warm_start.client import forked_executable

OWN = Path(sys.executable)
WARM = {"PATH": f"{OWN.parent}:/bin", "PYTHONPATH": "/src", "HOME": "/root", "OTHER": "1"}
PLAN = LaunchPlan(
    [OWN.name, "-m", "lagbench.programs.consumer", "--run-id=a"],
    WARM | {"POD_NAME": "a", "OTHER": "2"},
    Path("/tmp"),  # noqa: S108 - never opened
)


def test_a_program_of_ours_is_forked() -> None:
    """Its interpreter is the one on PATH; variables that nobody reads early may differ."""
    assert forked_executable(PLAN, WARM) == str(OWN)
    assert forked_executable(replace(PLAN, command=[str(OWN), *PLAN.command[1:]]), WARM) == str(OWN)


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "true"],
        [OWN.name, "-c", "pass"],
        [OWN.name, "-u", "-m", "lagbench.programs.consumer"],
        [OWN.name, "-m", "lagbench.localkube"],
        [OWN.name, "-m"],
        ["/usr/bin/env", "-m", "lagbench.programs.consumer"],
        ["no-such-python", "-m", "lagbench.programs.consumer"],
    ],
    ids=" ".join,
)
def test_any_other_command_is_executed(command: list[str]) -> None:
    """A shell, a script, a flag of the interpreter, another module or interpreter: no fork."""
    assert forked_executable(replace(PLAN, command=command), WARM) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONPATH", "/else"),
        ("PYTHONHASHSEED", "0"),
        ("LD_PRELOAD", "x.so"),
        ("OMP_NUM_THREADS", "4"),
        ("LC_ALL", "C"),
        ("TZ", "Asia/Tokyo"),
        ("HOME", "/elsewhere"),
    ],
)
def test_what_is_read_at_the_start_has_to_be_the_same(name: str, value: str) -> None:
    """A variable that an interpreter or library reads once, set otherwise, asks for an exec."""
    assert (
        forked_executable(replace(PLAN, environment=PLAN.environment | {name: value}), WARM) is None
    )


def test_what_an_exec_would_refuse_or_find_elsewhere_is_executed() -> None:
    """Too long a variable, a NUL, a folder whose modules come first."""
    long, nul = PLAN.environment | {"X": "x" * 131_072}, PLAN.environment | {"X": "a\0b"}

    assert forked_executable(replace(PLAN, environment=long), WARM) is None
    assert forked_executable(replace(PLAN, environment=nul), WARM) is None
    assert forked_executable(replace(PLAN, has_own_folder=False), WARM) is None
