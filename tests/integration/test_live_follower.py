"""The follower of a run beside a real broker: what it writes, and when it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.eventually import eventually
from tests.unit.plugins.conftest import SCALED_OBJECT, SCENARIO

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kafka.telemetry_topic import TelemetryLog, read_records
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.run_manifest import write_manifest
from lagbench.core.live.live_line import LiveLine, decode_line
from lagbench.core.telemetry.records_of_recorder import LagSample, ReplicaSample, UsageSample
from lagbench.embedded.broker import Broker
from localkube.processes import start_tied

pytestmark = pytest.mark.slow
EXIT_SECONDS = 180
Process = subprocess.Popen[bytes]


@pytest.fixture
def folder(tmp_path: Path, kafka_admin: KafkaAdmin) -> Iterator[RunFolder]:
    """Provide the folder of a run as plan_cell makes it, with its telemetry topic."""
    made = RunFolder.create(f"live-{time.time_ns() % 10**9}", tmp_path)
    write_manifest(
        made,
        scenario="quick_spike",
        policy="lag",
        seed=1,
        fidelity="processes",
        conf={},
        scenario_text=yaml.safe_dump(SCENARIO),
        policy_text=yaml.safe_dump(SCALED_OBJECT),
        created_at=time.time_ns(),
    )
    kafka_admin.create_topics([TopicSpec(made.names.telemetry_topic, 1)])
    yield made
    kafka_admin.delete_topics([made.names.telemetry_topic])


@pytest.fixture
def owner() -> Iterator[Process]:
    """Provide the process with which the follower ends."""
    process = start_tied(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def follower(folder: RunFolder, broker: Broker, owner: Process) -> Iterator[Process]:
    """Provide a follower that has written its first line."""
    process = start(folder, broker, owner)
    eventually(lambda: len(lines(folder)) > 0, "the first line")
    yield process
    process.kill()
    process.wait()


def start(folder: RunFolder, broker: Broker, owner: Process, *more: str) -> Process:
    """Start the program."""
    command = [sys.executable, "-m", "lagbench.programs.live", "--run-folder", str(folder.path)]
    command += ["--bootstrap-servers", broker.bootstrap_servers, "--owner-pid", str(owner.pid)]
    return start_tied([*command, *more])


def lines(folder: RunFolder) -> list[LiveLine]:
    """Return the whole lines so far."""
    if not folder.live.exists():
        return []
    whole = folder.live.read_bytes().rpartition(b"\n")[0]
    return [decode_line(line) for line in whole.split(b"\n") if line]


def send_lag(folder: RunFolder, broker: Broker) -> None:
    """Send a sample of lag and of replicas, as the recorder does."""
    log = TelemetryLog(broker.bootstrap_servers, folder.names.telemetry_topic)
    rows: list[tuple[int, int, int | None]] = [(p, 100, 10 * p) for p in range(4)]
    log.send(LagSample(at=time.time_ns(), source="recorder", partitions=rows))
    log.send(ReplicaSample(at=time.time_ns(), source="recorder", spec=3, current=3, ready=2))
    log.flush()


def add_phase(folder: RunFolder, name: str, state: str) -> None:
    """Record a phase as the tasks do."""
    with folder.phases.open("a") as file:
        file.write(json.dumps({"at": time.time_ns(), "name": name, "state": state}) + "\n")


def test_a_run_s_telemetry_becomes_live_lines(
    folder: RunFolder, broker: Broker, follower: Process
) -> None:
    """Lag, replicas and phases of the topic and the folder are in the lines, the cell is first."""
    send_lag(folder, broker)
    add_phase(folder, "inject_spike", "started")

    eventually(lambda: any(line.lag == 340 for line in lines(folder)), "the lag")
    eventually(lambda: any(line.phases for line in lines(folder)), "the phase")
    found = lines(folder)
    assert next(line for line in found if line.lag == 340).replicas == (3, 2)
    assert [line.run.run_id for line in found if line.run] == [folder.run_id]
    assert found[0].run is not None
    assert follower.poll() is None


def test_it_reports_its_own_cost(folder: RunFolder, broker: Broker, follower: Process) -> None:
    """Its CPU time is in the run's telemetry, until the fence."""

    def samples() -> list[UsageSample]:
        topic = folder.names.telemetry_topic
        records = list(read_records(broker.bootstrap_servers, topic))
        return [r for r in records if isinstance(r, UsageSample) and r.component == "live"]

    eventually(lambda: len(samples()) > 1, "two samples")
    add_phase(folder, "fence_run", "started")
    eventually(
        lambda: any(p.name == "fence_run" for line in lines(folder) for p in line.phases),
        "the fence",
    )
    so_far = len(lines(folder))
    eventually(lambda: len(lines(folder)) > so_far + 2, "three more lines")

    # By its stamp: a sample may still be on its way when the fence is seen.
    fenced = (line for line in lines(folder) if any(p.name == "fence_run" for p in line.phases))
    assert max(sample.at for sample in samples()) <= next(fenced).at


def test_it_ends_with_the_run(folder: RunFolder, follower: Process) -> None:
    """The last phase ends it; its last line says so and has the verdict."""
    folder.write_json(folder.verdict, {"status": "fail"})
    add_phase(folder, "bench_down", "finished")

    assert follower.wait(EXIT_SECONDS) == 0
    assert (lines(folder)[-1].is_last, lines(folder)[-1].verdict) == (True, "fail")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_its_owner(
    folder: RunFolder, owner: Process, follower: Process, signum: signal.Signals
) -> None:
    """However the Airflow above it ends, it ends too."""
    owner.send_signal(signum)
    owner.wait()

    assert follower.wait(EXIT_SECONDS) == 0
    assert lines(folder)[-1].is_last


def test_an_outage_of_the_broker_ends_nothing_before_its_time(
    folder: RunFolder, own_broker: Broker, owner: Process
) -> None:
    """Without its broker it continues with lines that have no figures; no run keeps it for ever."""
    process = start(folder, own_broker, owner, "--longest-seconds", "4")

    assert process.wait(EXIT_SECONDS) == 0
    assert len(lines(folder)) > 1
    assert (lines(folder)[-1].is_last, lines(folder)[-1].lag) == (True, None)


def test_a_second_follower_ends_at_once(
    folder: RunFolder, broker: Broker, owner: Process, follower: Process
) -> None:
    """A retry of the task starts another one, which leaves the file to the first."""
    assert start(folder, broker, owner).wait(EXIT_SECONDS) == 3
    assert follower.poll() is None
