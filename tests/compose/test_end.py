"""``docker compose down`` takes everything down, and the engine leaves nothing on the machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from lagbench.project import PROJECT_ROOT
from tests.compose.engine.engine import Engine, wait_until
from tests.compose.engine.machine import Machine
from tests.compose.stack import Stack

pytestmark = pytest.mark.timeout(1800)
# An engine with a container that does nothing, whose owner says so and waits.
OWNER = """
import signal, sys
from tests.compose.engine.engine import Engine
from tests.compose.stand_ins.base import BASE, base_layer
engine = Engine.new()
engine.start()
engine.docker("import", str(base_layer()), BASE, limit_seconds=1200)
engine.docker("run", "--detach", BASE, "sleep", "infinity")
print(*(process.pid for process in engine.processes()), flush=True)
signal.pause()
"""


def test_no_unnamed_volume_was_made(stack: Stack) -> None:
    """Each volume of the engine is one that the file names."""
    volumes = stack.engine.docker("volume", "ls", "--format", "{{.Name}}").split()

    assert volumes
    assert [name for name in volumes if not name.startswith("lagbench_")] == []


def test_down_removes_containers_and_networks(stack: Stack) -> None:
    """After ``down`` no container and no network of compose is there, and the volumes are."""
    stack.compose("down", limit_seconds=600)

    assert stack.engine.docker("ps", "--all", "--quiet").split() == []
    assert _networks(stack.engine) == {"bridge", "host", "none"}
    assert stack.engine.docker("volume", "ls", "--quiet").split()


def test_down_with_volumes_removes_all(stack: Stack) -> None:
    """After ``down -v`` no volume is left either."""
    stack.compose("down", "--volumes", limit_seconds=600)

    assert stack.engine.docker("volume", "ls", "--quiet").split() == []


def test_the_engine_leaves_nothing(stack: Stack, machine_before: Machine) -> None:
    """No link, mount, control group, process or folder of it is on the machine."""
    stack.engine.stop()

    assert Machine.now().left_since(machine_before) == {}


@pytest.fixture
def before() -> Machine:
    """Provide what this machine had before the owner."""
    return Machine.now()


@pytest.fixture
def owner(before: Machine) -> Iterator[subprocess.Popen[str]]:
    """Provide a process that owns an engine; kill it if the test did not."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait(timeout=30)


def test_a_killed_suite_leaves_nothing(before: Machine, owner: subprocess.Popen[str]) -> None:
    """SIGKILL of the process that owns an engine ends engine and containers, and cleans up."""
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert "sleep" in {_program(pid) for pid in pids}

    owner.kill()

    wait_until(lambda: not any(map(psutil.pid_exists, pids)), "the end of all", limit_seconds=300)
    assert Machine.now().left_since(before) == {}


def _program(pid: int) -> str | None:
    try:
        return psutil.Process(pid).name()
    except psutil.NoSuchProcess:  # it helped to start something
        return None


def _networks(engine: Engine) -> set[str]:
    return set(engine.docker("network", "ls", "--format", "{{.Name}}").split())
