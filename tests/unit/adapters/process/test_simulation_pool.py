"""Jobs in processes: the same outcomes, and nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.fakes.questions import PRESENT, SPIKE

from lagbench.adapters.process.simulation_pool import simulation_pool
from lagbench.core.advice.job import Place, evaluate_job, new_job
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from lagbench.project import PROJECT_ROOT

_PLACE = Place("short", SPIKE, SimulatedEnvironment(tail_seconds=60.0), "")
_ENDLESS = """
import multiprocessing, signal
from lagbench.adapters.process.simulation_pool import simulation_pool
from tests.unit.adapters.process.test_simulation_pool import PRESENT, _PLACE, new_job

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    jobs = [new_job("a", PRESENT, _PLACE, range(at, at + 40)) for at in range(100_000)]
    with simulation_pool(1) as evaluate:
        for _ in evaluate(jobs):
            print(*(one.pid for one in multiprocessing.active_children()), flush=True)
"""


def test_processes_find_what_one_function_finds() -> None:
    """Bit by bit, whatever the chunks are."""
    jobs = [new_job("a", PRESENT, _PLACE, range(at, at + 7)) for at in range(0, 63, 7)]

    with simulation_pool(1) as evaluate:
        found = {one.key: one for one in evaluate(jobs)}

    assert found == {one.key: one for one in map(evaluate_job, jobs)}


_ENDLESS_FORKS = """
import multiprocessing, signal, time
from lagbench.adapters.process.simulation_pool import ending_workers

signal.signal(signal.SIGINT, signal.default_int_handler)
with ending_workers(2, "fork") as pool:
    found = pool.map(time.sleep, [0.0, *[600.0] * 20])
    next(found)
    print(*(one.pid for one in multiprocessing.active_children()), flush=True)
    next(found)
"""


@pytest.mark.parametrize("endless", [_ENDLESS, _ENDLESS_FORKS], ids=["spawn", "fork"])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_worker_ends_with_its_parent(
    tmp_path: Path, ending: signal.Signals, endless: str
) -> None:
    """Ctrl-C and a kill of the parent alone leave no process."""
    script = tmp_path / "endless.py"
    script.write_text(endless)
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    with parent:
        pids = parent.stdout.readline().split()
        parent.send_signal(ending)
        parent.wait(60)

    assert pids
    eventually(lambda: not any(map(_is_running, pids)), "the workers have ended")


def _is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
