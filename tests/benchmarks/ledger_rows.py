"""The whole ledger of a run as columns."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.errors import NotReady

Ints = npt.NDArray[np.int64]
_LIMIT_SECONDS = 120.0
_BATCH = 500
# Offsets of one partition stay far below: 2^40 events of 256 B would be 280 TB.
_OFFSET_BITS = 40


@dataclass(frozen=True, slots=True)
class LedgerRows:
    """The processed messages; ``pod`` numbers the entries of ``pods``."""

    partition: Ints
    offset: Ints
    done_at: Ints
    pod: Ints
    pods: tuple[str, ...]

    def first_time_done(self) -> LedgerRows:
        """Return each message once, as it was done first, by ``done_at`` ascending."""
        order = np.argsort(self.done_at, kind="stable")
        identity = (self.partition[order] << _OFFSET_BITS) | self.offset[order]
        _, first = np.unique(identity, return_index=True)
        kept = order[np.sort(first)]
        return LedgerRows(
            self.partition[kept], self.offset[kept], self.done_at[kept], self.pod[kept], self.pods
        )


def read_ledger(bootstrap_servers: str, topic: str) -> LedgerRows:
    """Return every row of the ledger up to its present end.

    :raises NotReady: the end was not reached in time, or nothing was processed.
    """
    with KafkaAdmin(bootstrap_servers) as admin:
        ends = {number: end for number, end in admin.end_offsets(topic).items() if end > 0}
    if not ends:
        raise NotReady(f"the ledger {topic} is empty: nothing was processed")
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "lagbench-bench-ledger",  # required, never joined
            "enable.auto.commit": False,
        }
    )
    batches: list[tuple[int, str, pa.RecordBatch]] = []
    gives_up_at = time.monotonic() + _LIMIT_SECONDS
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
        while ends:
            if time.monotonic() > gives_up_at:
                raise NotReady(f"{topic} was not read to its end in {_LIMIT_SECONDS:.0f} s")
            for message in consumer.consume(_BATCH, timeout=0.5):
                value, number, offset = message.value(), message.partition(), message.offset()
                if message.error() is not None or value is None or number is None or offset is None:
                    continue
                batches.append(_decoded(value))
                if ends.get(number, 0) <= offset + 1:
                    ends.pop(number, None)
    finally:
        consumer.close()
    return _joined(batches)


def _decoded(value: bytes) -> tuple[int, str, pa.RecordBatch]:
    with pa.ipc.open_stream(value) as stream:
        metadata = stream.schema.metadata
        return int(metadata[b"partition"]), metadata[b"pod"].decode(), stream.read_next_batch()


def _joined(batches: list[tuple[int, str, pa.RecordBatch]]) -> LedgerRows:
    pods = tuple(sorted({pod for _, pod, _ in batches}))
    sizes = [batch.num_rows for _, _, batch in batches]

    def column(name: str) -> Ints:
        return np.concatenate([batch.column(name).to_numpy() for _, _, batch in batches])

    return LedgerRows(
        partition=np.repeat(np.array([number for number, _, _ in batches], np.int64), sizes),
        offset=column("offset"),
        done_at=column("done_at"),
        pod=np.repeat(np.array([pods.index(pod) for _, pod, _ in batches], np.int64), sizes),
        pods=pods,
    )
