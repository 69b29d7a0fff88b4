"""The consumer on Spark against a real broker: ledger, published offsets, deaths."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.integration.spark_stream import PARTITIONS, spark_stream

from lagbench.core.measures.spark import spark_measures
from lagbench.core.telemetry.records import (
    PodStopped,
    SparkBatch,
    SparkDriverStarted,
    SparkTask,
)
from lagbench.embedded.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

# 500 messages a second in each of two workers.
COST = {"process_ms": "8", "concurrency": "4", "trigger_seconds": "1"}
MESSAGES = 15_000
LONG = 30_000


def test_a_worker_killed_in_a_batch_loses_nothing(broker: Broker, tmp_path: Path) -> None:
    """Nothing is lost, its part of the batch is in the ledger twice, and no JVM of it stays."""
    with spark_stream(broker.bootstrap_servers, tmp_path, "spark-kill", **COST) as stream:
        driver = stream.start_driver()
        stream.write(PARTITIONS * 10)
        stream.await_published()
        assert Counter((p, at) for p, at, _, _ in stream.ledger()) == Counter(
            (partition, at) for partition in range(PARTITIONS) for at in range(10)
        )

        # Half a minute of work: the kill meets a task however long the ledger takes to read.
        stream.write_one_batch(driver, LONG)
        victim = stream.pods["spark-kill-worker-1"]
        stream.wait(
            lambda: sum(pod == victim.name for _, _, pod, _ in stream.ledger()) > 500,
            "the worker is in the middle of the batch",
        )
        victim.kill()
        stream.wait(lambda: not victim.left(), "no process of the worker is left")
        stream.await_published()

        done = Counter((p, at) for p, at, _, _ in stream.ledger())
        assert set(done) == {(p, at) for p, end in stream.ends().items() for at in range(end)}
        repeated = {place for place, times in done.items() if times > 1}
        assert 0 < len(repeated) < LONG
        # By identity: each repeat was begun by the dead worker, in one batch.
        members = {
            m for p, at, pod, m in stream.ledger() if (p, at) in repeated and pod == victim.name
        }
        assert len({member.partition(".")[0] for member in members}) == 1
        assert any(task.attempt for task in stream.telemetry(SparkTask))


@pytest.mark.parametrize("decommission", ["on", "off"])
def test_a_worker_asked_to_stop(decommission: str, broker: Broker, tmp_path: Path) -> None:
    """With decommissioning its tasks end first; without, they are done again."""
    run_id = f"spark-term-{decommission}"
    flags = {**COST, "decommission": decommission}
    with spark_stream(broker.bootstrap_servers, tmp_path, run_id, **flags) as stream:
        stream.write_one_batch(stream.start_driver(), MESSAGES)
        leaver = stream.pods[f"{run_id}-worker-1"]
        stream.wait(
            lambda: sum(pod == leaver.name for _, _, pod, _ in stream.ledger()) > 200,
            "the worker is in the middle of a task",
        )
        leaver.process.send_signal(signal.SIGTERM)
        assert leaver.process.wait(300) == 0
        stream.wait(lambda: not leaver.left(), "no process of the worker is left")
        stream.await_published()

        done = Counter((p, at) for p, at, _, _ in stream.ledger())
        assert set(done) == {(p, at) for p, end in stream.ends().items() for at in range(end)}
        repeats = sum(times - 1 for times in done.values())
        assert (repeats == 0) is (decommission == "on")
        (stopped,) = stream.telemetry(PodStopped)
        assert stopped.is_graceful is (decommission == "on")


def test_a_driver_that_dies_continues_from_its_checkpoint(broker: Broker, tmp_path: Path) -> None:
    """Nothing is lost; the new driver compares the offsets; no JVM of the first one stays."""
    with spark_stream(broker.bootstrap_servers, tmp_path, "spark-driver", **COST) as stream:
        first = stream.start_driver()
        stream.write(1_200)
        stream.await_published()
        stream.write_one_batch(first, MESSAGES)
        before = len(stream.ledger())
        stream.wait(lambda: len(stream.ledger()) > before + 500, "the batch is under way")
        first.kill()
        stream.wait(lambda: not first.left(), "no process of the driver is left")

        stream.start_driver("driver-2")
        stream.await_published()

        ledger = stream.ledger()
        done = {(p, at) for p, at, _, _ in ledger}
        assert len(ledger) > len(done)  # the batch in flight was done again
        assert done == {(p, at) for p, end in stream.ends().items() for at in range(end)}
        _, second = stream.telemetry(SparkDriverStarted)
        assert second.checkpointed is not None
        assert sum(second.published.values()) <= sum(second.checkpointed.values())
        records = [*stream.telemetry(SparkDriverStarted), *stream.telemetry(SparkTask)]
        records += stream.telemetry(SparkBatch)
        found = spark_measures(records, 0, 2**63 - 1)
        assert found is not None
        assert found.driver_starts == 2


def test_dynamic_allocation_takes_executors_while_tasks_wait(
    broker: Broker, tmp_path: Path
) -> None:
    """The first batch has its minimum, one of two workers; with work for longer both have tasks."""
    flags = {**COST, "dynamic_allocation_min": "1"}
    with spark_stream(broker.bootstrap_servers, tmp_path, "spark-dynamic", **flags) as stream:
        stream.start_driver(workers=1)
        stream.write(LONG)
        stream.await_published()

        batches = stream.telemetry(SparkBatch)
        assert batches[0].executors == 1
        assert max(batch.executors for batch in batches) == 2
        assert len({task.source for task in stream.telemetry(SparkTask)}) == 2
        assert len(stream.ledger()) == sum(stream.ends().values())
