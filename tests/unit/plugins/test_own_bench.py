"""A run stops the bench that it started, and no other."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.unit.plugins.bench_world import bench_up, stand_in_for_bench
from tests.unit.plugins.conftest import SERVERS, World

from lagbench.embedded import bench
from lagbench.embedded.bench_state import BenchState, ProcessRecord
from lagbench.errors import NotReady
from lagbench_airflow.own_bench import is_own_bench


class Machine:
    """A machine on which a bench may run, each with a supervisor of another number."""

    def __init__(self, state_dir: Path) -> None:
        """Begin without one."""
        self.state_dir = state_dir
        self.state: BenchState | None = None
        self._pid = 100

    def running(self, _state_dir: Path) -> BenchState | None:
        """Return the bench that runs."""
        return self.state

    def up(self, _state_dir: Path, **_: object) -> BenchState:
        """Start a bench where none runs."""
        if self.state is None:
            self._pid += 1
            supervisor = ProcessRecord(pid=self._pid, started_at=1.5 * self._pid)
            self.state = BenchState(
                version="1",
                state_dir=self.state_dir,
                started_at=datetime(2026, 11, 21, tzinfo=UTC),
                supervisor=supervisor,
                attached_to=None,
                bootstrap_servers=SERVERS,
                kafka_settings={},
                kafka="foreign",
                broker=None,
                broker_state="running",
                kubeconfig=self.state_dir / "kubeconfig",
                kubernetes_url="https://127.0.0.1:1",
                localkube=None,
                localkube_state="running",
            )
        return self.state


@pytest.fixture
def machine(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine without a bench, on which a cell finds all else."""
    machine = Machine(tmp_path)
    monkeypatch.setattr(bench, "running", machine.running)
    monkeypatch.setattr(bench, "up", machine.up)
    stand_in_for_bench(world, monkeypatch, is_embedded=True)
    return machine


def test_a_retry_knows_what_the_first_try_started(world: World, machine: Machine) -> None:
    """The first try starts the bench and fails; the second finds it up, and it is the run's own."""
    world.admin.is_down = True
    with pytest.raises(NotReady, match="the broker does not answer"):
        bench_up(world)
    world.admin.is_down = False

    assert not bench_up(world)["is_started"]
    assert is_own_bench(world.folder)


@pytest.mark.parametrize("whose", ["a person's of before", "somebody's since", "none any more"])
def test_a_bench_of_somebody_else_stays(world: World, machine: Machine, whose: str) -> None:
    """What was up before the run, or has another supervisor now, is not the run's to stop."""
    if whose == "a person's of before":
        machine.up(machine.state_dir)
    bench_up(world)
    if whose != "a person's of before":
        machine.state = None
    if whose == "somebody's since":
        machine.up(machine.state_dir)

    assert not is_own_bench(world.folder)
