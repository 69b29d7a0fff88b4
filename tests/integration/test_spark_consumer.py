"""The consumer on Spark against a real broker: a stream whose workers and driver end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from tests.integration.spark_stream import PARTITIONS, SparkStream, spark_stream

from lagbench.core.measures.spark_measures import spark_measures
from lagbench.core.telemetry.records_of_programs import (
    PodStopped,
    SparkBatch,
    SparkDriverStarted,
    SparkTask,
)
from lagbench.embedded.broker import Broker
from lagbench.embedded.spark_packages import submit_environment
from lagbench.shared_with_spark.spark_job import AUTHENTICATED, SECRET_SETTING
from localkube.ports import LOOPBACK
from localkube.processes import signal_group

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

# 500 messages a second in each of two workers.
COST = {"process_ms": "8", "concurrency": "4", "trigger_seconds": "1"}
MESSAGES = 15_000
NOBODY = 65534


@pytest.fixture(scope="module")
def stream(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkStream]:
    """Provide a stream whose workers are decommissioned when they are asked to stop."""
    flags = {**COST, "decommission": "on"}
    folder = tmp_path_factory.mktemp("stream")
    with spark_stream(broker.bootstrap_servers, folder, "spark", **flags) as stream:
        stream.start_driver()
        yield stream


def test_the_ledger_has_each_message_once(stream: SparkStream) -> None:
    """What nobody disturbs is processed once, and its offsets are published."""
    stream.write(PARTITIONS * 10)
    stream.await_published()

    assert stream.processed() == dict.fromkeys(stream.written(), 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="to act as another user needs root")
@pytest.mark.parametrize("guess", [{}, {**AUTHENTICATED, SECRET_SETTING: "a guess"}])
def test_another_user_of_the_machine_runs_nothing(
    guess: dict[str, str], stream: SparkStream, tmp_path: Path
) -> None:
    """Without the secret the master takes no application, and no command line has the secret."""
    home = Path(pyspark.__file__).parent  # no Python, which another user may not be able to read
    command = [home / "bin/spark-class", "org.apache.spark.deploy.SparkSubmit"]
    command += ["--master", stream.master_url, "--conf=spark.ui.enabled=false"]
    command += [f"--conf={name}={value}" for name, value in guess.items()]
    command += ["--class=org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log = tmp_path / "log"
    with log.open("wb") as output:
        stranger = subprocess.Popen(
            command,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            env={
                "PATH": os.defpath,
                "JAVA_HOME": submit_environment()["JAVA_HOME"],
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": LOOPBACK,
            },
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    answers = ("Failed to connect to master", "Connected to Spark cluster")
    try:
        stream.wait(lambda: any(said in log.read_text() for said in answers), "the master's answer")
        shown = Path("/proc").glob("[0-9]*/cmdline")
        assert not [line for line in map(_text, shown) if stream.secret in line]
    finally:
        signal_group(stranger.pid, signal.SIGKILL)
        stranger.wait()
    assert answers[0] in log.read_text()
    assert [app["name"] for app in stream.applications()] == ["lagbench enrich_stream"]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # it has ended
        return ""


def test_a_worker_asked_to_stop_ends_its_tasks_first(stream: SparkStream) -> None:
    """With decommissioning nothing is done again, and the worker says so."""
    before = stream.processed()
    leaver = stream.end_worker_in_a_batch(stream.pods["driver"], MESSAGES, signal.SIGTERM)

    assert set((stream.processed() - before).values()) == {1}
    assert stream.processed().keys() == stream.written()
    (stopped,) = stream.telemetry(PodStopped)
    assert (stopped.is_graceful, leaver.process.returncode) == (True, 0)


def test_a_worker_killed_in_a_batch_loses_nothing(stream: SparkStream) -> None:
    """Nothing is lost, its part of the batch is in the ledger twice, and no JVM of it stays."""
    before = stream.processed()
    victim = stream.end_worker_in_a_batch(stream.pods["driver"], MESSAGES, signal.SIGKILL)

    assert stream.processed().keys() == stream.written()
    done = stream.processed() - before
    repeated = {place for place, times in done.items() if times > 1}
    assert 0 < len(repeated) < MESSAGES
    # By identity: each repeat was begun by the dead worker, in one batch.
    rows = [row for row in stream.ledger() if row[:2] in repeated and row.pod == victim.name]
    assert len({row.member.partition(".")[0] for row in rows}) == 1
    assert any(task.attempt for task in stream.telemetry(SparkTask))


def test_a_driver_that_dies_continues_from_its_checkpoint(stream: SparkStream) -> None:
    """Nothing is lost; the new driver compares the offsets; no JVM of the first one stays."""
    before = stream.processed()
    first = stream.pods["driver"]
    stream.write_one_batch(first, MESSAGES)
    stream.wait(lambda: len(stream.ledger()) > before.total() + 500, "the batch is under way")
    first.kill()
    stream.wait(lambda: not first.left(), "no process of the driver is left")
    stream.start_driver("driver-2")
    stream.await_published()

    assert stream.processed().keys() == stream.written()
    done = stream.processed() - before
    assert done.total() > len(done)  # the batch in flight was done again
    _, second = stream.telemetry(SparkDriverStarted)
    assert second.checkpointed is not None
    assert sum(second.published.values()) <= sum(second.checkpointed.values())
    records = [*stream.telemetry(SparkDriverStarted), *stream.telemetry(SparkTask)]
    records += stream.telemetry(SparkBatch)
    found = spark_measures(records, 0, 2**63 - 1)
    assert found is not None
    assert found.driver_starts == 2
