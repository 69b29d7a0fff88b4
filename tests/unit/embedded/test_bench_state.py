"""The files of a bench: a process is told from its successor, a foreign file is no bench."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from lagbench.adapters.process.processor_speed import Processor
from lagbench.embedded import bench
from lagbench.embedded.bench_state import BenchFiles, BenchState, BrokerOutage, ProcessRecord
from lagbench.embedded.doctor import scenarios_carried
from lagbench.embedded.kafka_choice import write_atomically


def test_state_survives_the_file(tmp_path: Path) -> None:
    """What is written is what is read, and only the owner can read it."""
    files, state = BenchFiles(tmp_path), _state(tmp_path)

    files.write_bench(state)

    assert files.read_bench() == state
    assert files.bench.stat().st_mode & 0o077 == 0


def test_unreadable_state_is_no_bench(tmp_path: Path) -> None:
    """A file of another version is not taken for a running bench."""
    files = BenchFiles(tmp_path)
    files.bench.write_text('{"pid": 1}')

    assert files.read_bench() is None
    assert bench.running(tmp_path) is None


def test_reused_process_number_is_not_alive(tmp_path: Path) -> None:
    """A process that began at another time is another process."""
    me = ProcessRecord.of(os.getpid())

    assert me is not None
    assert me.is_alive()
    assert not ProcessRecord(pid=me.pid, started_at=me.started_at - 100).is_alive()


def test_bench_of_a_dead_supervisor_is_not_running(tmp_path: Path) -> None:
    """A left-over bench.json does not make a bench; down removes it."""
    state = _state(tmp_path)
    dead = state.supervisor.model_copy(update={"started_at": 1.0})
    files = BenchFiles(tmp_path)
    files.write_bench(state.model_copy(update={"supervisor": dead}))

    assert bench.running(tmp_path) is None
    assert not bench.status(tmp_path).is_up
    assert bench.down(tmp_path) == []
    assert not files.bench.exists()


def test_connections_reach_the_bench(tmp_path: Path) -> None:
    """Airflow's three connections and the plain variables name the same addresses."""
    found = bench.connections(_state(tmp_path))

    assert '"bootstrap.servers": "127.0.0.1:9092"' in found["AIRFLOW_CONN_KAFKA_DEFAULT"]
    assert found["KUBECONFIG"] in found["AIRFLOW_CONN_KUBERNETES_DEFAULT"]
    assert found["KAFKA_BOOTSTRAP_SERVERS"] == "127.0.0.1:9092"
    assert found["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert '"local[2]"' in found["AIRFLOW_CONN_SPARK_DEFAULT"]


def test_a_request_for_an_outage_is_read_once(tmp_path: Path) -> None:
    """The next stop of the broker has no length again."""
    files = BenchFiles(tmp_path)
    files.ask_for_outage(BrokerOutage(seconds=2.5))

    assert files.take_outage() == BrokerOutage(seconds=2.5)
    assert files.take_outage() is None


def _state(folder: Path) -> BenchState:
    me = ProcessRecord.of(os.getpid())
    assert me is not None
    return BenchState(
        version="0.1.0",
        state_dir=folder,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        supervisor=me,
        attached_to=None,
        bootstrap_servers="127.0.0.1:9092",
        kafka_settings={"bootstrap.servers": "127.0.0.1:9092"},
        kafka="embedded",
        broker=None,
        broker_state="stopped",
        kubeconfig=folder / "localkube" / "kubeconfig",
        kubernetes_url="https://127.0.0.1:6443",
        localkube=None,
        localkube_state="stopped",
    )


def test_a_password_is_never_readable_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part has its rights before it has its content: a kill in between leaves no secret."""
    modes: list[int] = []
    write = Path.write_text

    def seen(path: Path, *args: object, **kwargs: object) -> int:
        modes.append(path.stat().st_mode & 0o777)
        return write(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", seen)
    write_atomically(tmp_path / "login", "sasl.password=x", mode=0o600)
    write_atomically(tmp_path / "state", "{}")

    assert modes == [0o600, 0o600]
    assert (tmp_path / "login").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o644
    assert {path.name for path in tmp_path.iterdir()} == {"login", "state"}


def test_scenarios_that_a_machine_cannot_carry_are_named() -> None:
    """One core is too little for the largest scenario, and enough for the smallest."""
    found = scenarios_carried(Processor(cores=1, speed=1.0))

    assert found.status == "warn"
    assert "standard_spike" in found.seen
    assert "steady" not in found.seen


def test_a_slow_processor_carries_less() -> None:
    """Cores of a fifth of the speed do a fifth of the work."""
    fast, slow = (scenarios_carried(Processor(cores=4, speed=speed)) for speed in (1.0, 0.2))

    assert fast.status == "ok"
    assert "standard_spike" in slow.seen


def test_the_memory_of_sparks_jvms_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2 GiB free the scenario on Spark is named with what its JVMs take; the others fit."""
    free = SimpleNamespace(available=2 * 2**30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)

    found = scenarios_carried(Processor(cores=64, speed=1.0))

    assert found.status == "warn"
    assert "spark_consumer (" in found.seen
    assert "GiB for its JVMs" in found.seen
    assert "quick_spike" not in found.seen
