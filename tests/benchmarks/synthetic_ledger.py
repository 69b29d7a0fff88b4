"""The ledger of consumers that processed a whole stream once, written without consuming it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from confluent_kafka import Producer

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.core.scenario.event_stream import BLOCK_EVENTS, EventBlock, EventStream, partitions_of
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.telemetry.records_of_programs import PartitionsAssigned, PodStopped
from lagbench.errors import NotReady
from lagbench.programs.consumer.ledger import encode_batch, ledger_schema
from lagbench.programs.consumer.work_queues import PartitionWork, Writes
from lagbench.programs.producer.producer_settings import ProducerSettings

PODS = 12
BATCH_ROWS = 5000
_BLOCKS_AT_ONCE = 16
_STARTED_AFTER_NS = 3_000_000
_DONE_AFTER_NS = 5_000_000
_FLUSH_SECONDS = 60.0


def pod_of(partition: int) -> str:
    """Return the pod that owns a partition from beginning to end."""
    return f"consumer-{partition % PODS:02}"


def write_ledger(
    settings: ProducerSettings, names: RunNames, partitions: int, *, stream_started_at: int
) -> int:
    """Write the ledger of the stream that ``settings`` describe; returns its rows.

    Offsets are known without reading: the producer is idempotent and fills each partition in the
    order of seq.
    """
    works = [PartitionWork(number, f"member-{pod_of(number)}") for number in range(partitions)]
    schemas = [ledger_schema(w.partition, pod_of(w.partition), w.member_id) for w in works]
    producer = Producer(
        {
            "bootstrap.servers": settings.flags.bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
        }
    )
    next_offset = [0] * partitions
    for events in _chunks(settings):
        where = partitions_of(events["entity_id"], partitions)
        order = np.argsort(where, kind="stable")
        borders = np.searchsorted(where[order], np.arange(partitions + 1))
        for work, schema, first, end in zip(works, schemas, borders, borders[1:], strict=False):
            for start in range(first, end, BATCH_ROWS):
                rows = events[order[start : min(start + BATCH_ROWS, end)]]
                planned_at = stream_started_at + rows["planned_offset_ns"]
                offset = next_offset[work.partition]
                writes = Writes(
                    work,
                    np.arange(offset, offset + rows.size, dtype=np.int64),
                    rows,
                    planned_at + _STARTED_AFTER_NS,
                    planned_at + _DONE_AFTER_NS,
                )
                _send(producer, names, work.partition, encode_batch([writes], schema))
                next_offset[work.partition] += rows.size
    if left := producer.flush(_FLUSH_SECONDS):
        raise NotReady(f"{left} ledger records were not acknowledged")
    return sum(next_offset)


def report_pods(bootstrap_servers: str, names: RunNames, partitions: int, *, at: int) -> None:
    """Tell the telemetry who owned what from ``at`` on, and that every pod drained."""
    log = TelemetryLog(bootstrap_servers, names.telemetry_topic)
    for pod in {pod_of(number) for number in range(partitions)}:
        owned = [number for number in range(partitions) if pod_of(number) == pod]
        log.send(
            PartitionsAssigned(
                at=at,
                source=pod,
                member_id=f"member-{pod}",
                partitions=owned,
                owned=owned,
                is_incremental=True,
                rebalance=1,
            )
        )
        log.send(
            PodStopped(
                at=at,
                source=pod,
                reason="SIGTERM",
                is_graceful=True,
                abandoned=0,
                processed_total=0,
            )
        )
    if log.flush(_FLUSH_SECONDS):
        raise NotReady("the pods' telemetry was not acknowledged")


def _chunks(settings: ProducerSettings) -> Iterator[EventBlock]:
    stream = EventStream(
        settings.load,
        settings.keys,
        seed=settings.flags.seed,
        producer_id=settings.flags.producer_id,
    )
    step = BLOCK_EVENTS * _BLOCKS_AT_ONCE
    for first in range(0, settings.load.total, step):
        yield stream.events(first, first + step)


def _send(producer: Producer, names: RunNames, partition: int, value: bytes) -> None:
    while True:
        try:
            producer.produce(names.processed_topic, value, partition.to_bytes(4, "big"))
        except BufferError:
            producer.poll(0.05)
        else:
            producer.poll(0)
            return
