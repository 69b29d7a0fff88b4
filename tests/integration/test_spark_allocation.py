"""A stream on Spark with dynamic allocation and without decommissioning, against a real broker."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.integration.spark_stream import SparkStream, spark_stream

from lagbench.core.telemetry.records_of_programs import PodStopped, SparkBatch, SparkTask
from lagbench.embedded.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

# 500 messages a second in each of two workers: half a minute of work for both.
FLAGS = {
    "process_ms": "8",
    "concurrency": "4",
    "trigger_seconds": "1",
    "decommission": "off",
    "dynamic_allocation_min": "1",
}
MESSAGES = 30_000


@pytest.fixture(scope="module")
def stream(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkStream]:
    """Provide the stream."""
    folder = tmp_path_factory.mktemp("stream")
    with spark_stream(broker.bootstrap_servers, folder, "spark-dynamic", **FLAGS) as stream:
        stream.start_driver(workers=1)
        yield stream


def test_dynamic_allocation_takes_executors_while_tasks_wait(stream: SparkStream) -> None:
    """The first batch has its minimum, one of two workers; with work for longer both have tasks."""
    stream.write(MESSAGES)
    stream.await_published()

    executors = [batch.executors for batch in stream.telemetry(SparkBatch)]
    assert (executors[0], max(executors)) == (1, 2)
    assert len({task.source for task in stream.telemetry(SparkTask)}) == 2
    assert stream.processed() == dict.fromkeys(stream.written(), 1)


def test_without_decommissioning_a_leaver_s_tasks_are_done_again(stream: SparkStream) -> None:
    """Nothing is lost, and the worker that was asked to stop says that it was not graceful."""
    before = stream.processed()
    leaver = stream.end_worker_in_a_batch(stream.pods["driver"], MESSAGES // 2, signal.SIGTERM)

    done = stream.processed() - before
    assert done.total() > len(done)
    assert stream.processed().keys() == stream.written()
    (stopped,) = stream.telemetry(PodStopped)
    assert (stopped.is_graceful, leaver.process.returncode) == (False, 0)
