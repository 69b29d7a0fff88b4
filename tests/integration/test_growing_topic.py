"""Partitions that are added under load, on a real broker: who sees them, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaException
from tests.eventually import eventually
from tests.integration.consumer_group import consumer_group_run
from tests.integration.producer_target import (
    PARTITIONS,
    ProducerTarget,
    log_sha256,
    read_all,
    value_of,
)

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.core.scenario.event_stream import planned_partitions
from lagbench.core.scenario.scenario import PartitionPlan
from lagbench.core.telemetry.records_of_programs import ProducerProgress
from lagbench.embedded.broker import Broker
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.recorder.kafka_readings import LagReading
from lagbench.shared_with_spark.event import decode_events
from localkube.processes import end_process, start_tied

pytestmark = pytest.mark.slow
GROWN = 2 * PARTITIONS
STREAM = ["-rate", "600", "-duration-seconds", "5", "-entities", "500"]
PATIENCE_SECONDS = 180.0


def start(
    target: ProducerTarget, log_dir: Path, growth: str
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a producer; return it with the instant at which its stream was seen to start."""
    path = log_dir / "producer.log"
    command = target.command(*STREAM, f"-partitions={PARTITIONS}", f"-grow-partitions={growth}")
    with path.open("ab") as log:
        process = start_tied(command, log=log, env=dict(os.environ))
    eventually(
        lambda: "stream of" in path.read_text(),
        "the stream starts",
        within_seconds=PATIENCE_SECONDS,
    )
    return process, time.time_ns()


def progress(target: ProducerTarget) -> list[ProducerProgress]:
    """Return the producer's reports so far; none while the topic has no leader yet."""
    with contextlib.suppress(KafkaException):
        return [seen for seen in target.records() if isinstance(seen, ProducerProgress)]
    return []


def sleep_until(instant: int) -> None:
    """Wait until an instant on the wall clock (unix ns)."""
    time.sleep(max(0.0, (instant - time.time_ns()) / 1e9))


@pytest.mark.parametrize("late_seconds", [-2.9, 0.4])
def test_a_message_goes_by_the_partitions_of_its_planned_instant(
    target: ProducerTarget, kafka_admin: KafkaAdmin, tmp_path: Path, late_seconds: float
) -> None:
    """Whether the partitions come early or late, each message is where the plan puts it."""
    process, started_at = start(target, tmp_path, f"[[3,{GROWN}]]")
    sleep_until(started_at + round((3 + late_seconds) * 1e9))
    assert kafka_admin.grow_topic(target.topic, GROWN) == PARTITIONS

    assert process.wait(PATIENCE_SECONDS) == 0
    messages = read_all(target, target.topic)
    events = np.concatenate([decode_events(value_of(m)) for m in messages])
    plan = PartitionPlan(PARTITIONS, ((3.0, GROWN),))
    planned = planned_partitions(events["entity_id"], events["planned_offset_ns"], plan)
    assert [m.partition() for m in messages] == planned.tolist()
    assert sorted(events["seq"].tolist()) == list(range(3000))
    is_early = events["planned_offset_ns"] < 3_000_000_000
    assert planned[is_early].max() < PARTITIONS
    assert set(planned[~is_early].tolist()) == set(range(GROWN))
    finished = target.finished()
    assert finished.stream_sha256 == log_sha256(messages)
    if late_seconds > 0:
        assert finished.lateness_max_ms >= 200


def test_a_topic_that_never_grows_ends_the_stream(target: ProducerTarget, tmp_path: Path) -> None:
    """A stop while the producer waits for partitions ends it; nothing goes elsewhere."""
    process, _ = start(target, tmp_path, f"[[0.5,{GROWN}]]")
    eventually(
        lambda: any(seen.sent >= 299 for seen in progress(target)),
        "everything before the growth is sent",
    )
    assert end_process(process.pid, grace_seconds=PATIENCE_SECONDS)

    events = np.concatenate([decode_events(value_of(m)) for m in read_all(target, target.topic)])
    assert events["planned_offset_ns"].max() < 500_000_000
    assert target.finished().sent == len(events) >= 299


def test_a_topic_grows_once_and_never_shrinks(
    target: ProducerTarget, kafka_admin: KafkaAdmin
) -> None:
    """Growing to the number that it has changes nothing; fewer and a missing topic are refused."""
    assert kafka_admin.grow_topic(target.topic, GROWN) == PARTITIONS
    assert kafka_admin.grow_topic(target.topic, GROWN) == GROWN
    assert kafka_admin.partition_counts([target.topic]) == {target.topic: GROWN}
    with pytest.raises(WrongInput):
        kafka_admin.grow_topic(target.topic, PARTITIONS)
    with pytest.raises(NotReady):
        kafka_admin.grow_topic("no-such-topic", 3)


def test_members_find_new_partitions_and_skip_nothing_in_them(
    broker: Broker, kafka_admin: KafkaAdmin, tmp_path: Path
) -> None:
    """What was written before anybody owned the new partitions is processed, each message once."""
    with consumer_group_run(broker.bootstrap_servers, tmp_path, partitions=3) as run:
        for pod in ("pod-a", "pod-b"):
            run.start(pod, "--process-ms=1", "--concurrency=4")
        run.await_members(kafka_admin, 2, within_seconds=PATIENCE_SECONDS)
        run.offer(600)

        kafka_admin.grow_topic(run.names.events_topic, 6)
        run.partitions = 6
        run.offer(1200)
        found = LagReading(
            {"bootstrap.servers": run.bootstrap_servers},
            group=run.names.group,
            topic=run.names.events_topic,
            source="r",
        )
        (sample,) = list(found(1))

        run.await_members(kafka_admin, 2, within_seconds=PATIENCE_SECONDS)
        rows = run.await_processed(1800, within_seconds=PATIENCE_SECONDS)
        assert [run.terminate(pod, within_seconds=PATIENCE_SECONDS) for pod in run.pods] == [0, 0]

    assert [partition for partition, _, _ in sample.partitions] == list(range(6))
    assert [end for _, end, _ in sample.partitions] == [400] * 3 + [200] * 3
    assert (np.bincount(rows.seq.astype(np.int64)) == 1).all()
    assert {partition: int((rows.partition == partition).sum()) for partition in range(6)} == {
        **dict.fromkeys(range(3), 400),
        **dict.fromkeys(range(3, 6), 200),
    }
