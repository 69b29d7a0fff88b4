"""The files of a bench: a process is told from its successor, a foreign file is no bench."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from lagbench.adapters.process.processor_speed import Processor
from lagbench.adapters.runs.run_folder import LANDED_TABLES, RunFolder
from lagbench.embedded import bench
from lagbench.embedded.bench_state import BenchFiles, BenchState, BrokerOutage, ProcessRecord
from lagbench.embedded.broker import BrokerLayout, ProxiedListener, server_properties
from lagbench.embedded.doctor import scenarios_carried
from lagbench.embedded.kafka_choice import write_atomically
from lagbench.embedded.kept_log import has_log, how_to_account, note_fence, put_aside


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


@pytest.mark.parametrize(
    ("processor", "free_gib", "lacking", "carried"),
    [
        # One core is too little for the largest scenario, and enough for the smallest.
        (Processor(cores=1, speed=1.0), 64, "standard_spike", "steady"),
        # Cores of a fifth of the speed do a fifth of the work.
        (Processor(cores=4, speed=0.2), 64, "standard_spike", None),
        (Processor(cores=4, speed=1.0), 64, None, "standard_spike"),
        # The JVMs of Spark take more memory than is free.
        (Processor(cores=64, speed=1.0), 2, "spark_consumer (", "quick_spike"),
    ],
)
def test_scenarios_that_a_machine_cannot_carry_are_named(
    monkeypatch: pytest.MonkeyPatch,
    processor: Processor,
    free_gib: int,
    lacking: str | None,
    carried: str | None,
) -> None:
    """With what they need."""
    free = SimpleNamespace(available=free_gib * 2**30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)

    found = scenarios_carried(processor)

    assert found.status == ("ok" if lacking is None else "warn")
    assert lacking is None or lacking in found.seen
    assert carried is None or carried not in found.seen
    assert ("GiB for its JVMs" in found.seen) == (free_gib == 2)


FENCE = {"events": {"0": 7}, "processed": {"0": 1}, "telemetry": {"0": 3}, "committed": {"0": 7}}


@pytest.fixture
def files(tmp_path: Path) -> BenchFiles:
    """Return the files of a bench whose broker has data."""
    found = BenchFiles(tmp_path / "state")
    _write_data(found)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return the folder of a run without an accounting."""
    return RunFolder.create("run-1", tmp_path / "runs")


def _write_data(files: BenchFiles) -> None:
    (files.broker / "data").mkdir(parents=True)
    (files.broker / "data" / "meta.properties").write_text("version=1")


def _kept(files: BenchFiles) -> list[str]:
    return sorted(path.name for path in (files.state_dir / "kept-logs").glob("*"))


@pytest.mark.parametrize("ends_by", ["accounting", "deletion"])
def test_the_log_of_a_fenced_run_outlives_the_bench(
    files: BenchFiles, folder: RunFolder, ends_by: str
) -> None:
    """Until it is accounted for, or its run folder is deleted; one that was not fenced is not kept.

    The next bench begins with an empty broker.
    """
    put_aside(files)
    assert not (files.broker / "data").exists()
    assert _kept(files) == []

    _write_data(files)
    note_fence(files.state_dir, folder, {"run-1": FENCE})
    assert has_log(files.state_dir, folder)

    put_aside(files)
    assert not (files.broker / "data").exists()
    assert _kept(files) == ["run-1"]
    assert has_log(files.state_dir, folder)

    if ends_by == "accounting":
        folder.write_json(folder.accounting, {})
    else:
        shutil.rmtree(folder.path)
    _write_data(files)
    put_aside(files)
    assert _kept(files) == []


@pytest.mark.parametrize("left", ["tables", "copies"])
def test_nothing_is_kept_of_what_the_run_folder_has(
    files: BenchFiles, folder: RunFolder, left: str
) -> None:
    """Landed tables, or copies of all topics, are enough to account for it."""
    note_fence(files.state_dir, folder, {"run-1": FENCE})
    for kind in LANDED_TABLES:
        place = folder.table(kind) if left == "tables" else folder.copy(kind)
        place.mkdir(parents=True)
        (place / "_SUCCESS").touch()

    put_aside(files)

    assert _kept(files) == []


def test_the_remedy_names_what_is_there(files: BenchFiles, folder: RunFolder) -> None:
    """A run that was never fenced has none, and one whose messages are gone is to be run again."""
    assert how_to_account(files.state_dir, folder) == ""

    folder.write_json(folder.fence, FENCE)
    assert "run it again" in how_to_account(files.state_dir, folder)

    note_fence(files.state_dir, folder, {"run-1": FENCE})
    assert "lagbench account run-1" in how_to_account(files.state_dir, folder)

    folder.write_json(folder.accounting, {})
    assert how_to_account(files.state_dir, folder) == ""


def test_only_loopback_is_listened_on_and_the_proxy_is_advertised(tmp_path: Path) -> None:
    """The second listener is the broker's own port, and it advertises the proxy's."""
    proxied = ProxiedListener(port=9094, advertised_port=9095)
    layout, ports = BrokerLayout(tmp_path), {"port": 9092, "controller_port": 9093}
    plain, behind = (
        dict(
            line.split("=", 1)
            for line in server_properties(layout, **ports, proxied=other).splitlines()
        )
        for other in (None, proxied)
    )

    for found in (plain, behind):
        listeners = found["listeners"].split(",") + found["advertised.listeners"].split(",")
        assert all("://127.0.0.1:" in listener for listener in listeners)
    assert "PROXIED://127.0.0.1:9094" in behind["listeners"].split(",")
    assert behind["advertised.listeners"].split(",") == [
        "PLAINTEXT://127.0.0.1:9092",
        "PROXIED://127.0.0.1:9095",
    ]
    assert "PROXIED:PLAINTEXT" in behind["listener.security.protocol.map"].split(",")
    assert proxied.bootstrap_servers == "127.0.0.1:9095"
