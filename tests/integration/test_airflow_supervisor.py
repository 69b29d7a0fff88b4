"""The owner of Airflow's parts, with other programs in their places, and what a crash leaves."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from tests.eventually import eventually

from lagbench.orchestrator import airflow_server
from lagbench.orchestrator.airflow_environment import airflow_home, write_configuration
from lagbench.orchestrator.airflow_supervisor import PARTS
from localkube.processes import kill_all, session_members

pytestmark = pytest.mark.slow

# Each part has a child that outlives it, under a title like that of the executor's workers.
PART = "import subprocess as s; s.Popen(['{title}', '300'], executable='/bin/sleep').wait()"
SUPERVISE = """
import sys
from lagbench.orchestrator import airflow_supervisor
airflow_supervisor.airflow_command = lambda name, *_: [sys.executable, "-c", {part!r}, name]
sys.argv[1:] = ["--log", {log!r}]
airflow_supervisor.main()
"""


@dataclass
class Supervised:
    """A supervisor that is recorded as the server of a state folder."""

    state_dir: Path
    process: subprocess.Popen[bytes]

    def part(self, name: str) -> int:
        """Return the process of a part."""
        below = psutil.Process(self.process.pid).children()
        return next((part.pid for part in below if words_of(part.pid)[-1:] == [name]), 0)

    def workers(self) -> set[int]:
        """Return the children of parts."""
        return {pid for pid in self.session() if words_of(pid)[-1:] == ["300"]}

    def session(self) -> set[int]:
        """Return the processes of the supervisor's session."""
        return {process.pid for process in session_members(self.process.pid)}


def words_of(pid: int) -> list[str]:
    """Return a process's command, nothing if it has ended."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).cmdline()
    return []


@pytest.fixture
def supervised(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Supervised]:
    """Provide a supervisor whose parts all run."""
    (tmp_path / "airflow").mkdir()
    part = PART.format(title=getattr(request, "param", "airflow worker"))
    code = SUPERVISE.format(part=part, log=str(airflow_server.log_file(tmp_path)))
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    started_at = psutil.Process(process.pid).create_time()
    record = {"pid": process.pid, "started_at": started_at, "url": "", "user": ""}
    airflow_server.server_file(tmp_path).write_text(json.dumps(record))
    found = Supervised(tmp_path, process)
    try:
        eventually(lambda: len(found.workers()) == len(PARTS), "all parts")
        yield found
    finally:
        kill_all(session_members(process.pid))
        process.wait(timeout=60)


def crash(supervised: Supervised) -> set[int]:
    """Kill the reaper and then the supervisor; return the workers, which live on."""
    workers = supervised.workers()
    for child in psutil.Process(supervised.process.pid).children():
        if "process_reaper.py" in " ".join(words_of(child.pid)):
            child.kill()
    supervised.process.kill()
    supervised.process.wait(timeout=60)
    eventually(lambda: supervised.session() == workers, "the end of the parts")
    return workers


def test_a_part_that_ended_is_started_again(supervised: Supervised) -> None:
    """What it left ends; the other parts stay."""
    before = {name: supervised.part(name) for name in PARTS}
    workers = supervised.workers()

    os.kill(before["scheduler"], signal.SIGKILL)

    eventually(lambda: supervised.part("scheduler") not in {0, before["scheduler"]}, "a start")
    eventually(lambda: len(supervised.workers() - workers) == 1, "another worker")
    assert len(supervised.workers() & workers) == len(PARTS) - 1
    assert {n: supervised.part(n) for n in PARTS if n != "scheduler"} == {
        name: pid for name, pid in before.items() if name != "scheduler"
    }


def test_what_a_double_fault_left_is_ended(supervised: Supervised) -> None:
    """Reaper and supervisor were killed: the number of the session still finds the workers."""
    crash(supervised)

    assert airflow_server.running_server(supervised.state_dir) is None
    assert airflow_server.stop_server(supervised.state_dir)
    assert supervised.session() == set()
    assert not airflow_server.stop_server(supervised.state_dir)


@pytest.mark.parametrize("supervised", ["somebody else"], indirect=True)
def test_a_session_without_airflow_is_left_alone(supervised: Supervised) -> None:
    """The number was given to another program's session."""
    workers = crash(supervised)

    assert not airflow_server.stop_server(supervised.state_dir)
    assert supervised.session() == workers


def test_the_end_leaves_nothing(supervised: Supervised) -> None:
    """Asked to end, it ends its parts and what they started."""
    assert airflow_server.stop_server(supervised.state_dir)
    assert supervised.session() == set()


def test_the_configuration_is_written_before_the_parts_start(tmp_path: Path) -> None:
    """Parts that start together would each write another secret."""
    airflow_home(tmp_path).mkdir()
    write_configuration(tmp_path)
    found = (airflow_home(tmp_path) / "airflow.cfg").read_text()
    write_configuration(tmp_path)

    assert re.search(r"^jwt_secret = \S{20,}$", found, re.MULTILINE)
    assert (airflow_home(tmp_path) / "airflow.cfg").read_text() == found
