"""Look into a run's telemetry topic while it fills."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeVar

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from lagbench.adapters.kafka.client_settings import own_settings
from lagbench.core.telemetry.record import Record
from lagbench.core.telemetry.records import decode_record
from lagbench.errors import NotReady

Wanted = TypeVar("Wanted", bound=Record)
_BATCH = 1000


def first_record(
    bootstrap_servers: str,
    topic: str,
    kind: type[Wanted],
    *,
    where: Callable[[Wanted], bool] = lambda _: True,
    timeout_seconds: float = 10.0,
) -> Wanted | None:
    """Return the first record of ``kind`` for which ``where`` holds, None when none is there yet.

    :raises NotReady: the broker did not answer within ``timeout_seconds``.
    """
    with closing(read_records(bootstrap_servers, topic, timeout_seconds=timeout_seconds)) as all_of:
        fitting = (record for record in all_of if isinstance(record, kind))
        return next((record for record in fitting if where(record)), None)


def last_record(
    bootstrap_servers: str, topic: str, kind: type[Wanted], *, timeout_seconds: float = 10.0
) -> Wanted | None:
    """Return the newest record of ``kind``, None when none is there yet."""
    with closing(read_records(bootstrap_servers, topic, timeout_seconds=timeout_seconds)) as all_of:
        newest = None
        for record in all_of:
            newest = record if isinstance(record, kind) else newest
        return newest


def read_records(
    bootstrap_servers: str, topic: str, *, timeout_seconds: float = 10.0
) -> Generator[Record, None, None]:
    """Yield the records of ``topic`` from its beginning to its end as it was at the first."""
    consumer = Consumer(
        {
            **own_settings(bootstrap_servers),
            "group.id": "lagbench-telemetry-read",  # required, never joined
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "log_level": 0,
        }
    )
    place = TopicPartition(topic, 0, OFFSET_BEGINNING)
    deadline = time.monotonic() + timeout_seconds
    try:
        _, end = consumer.get_watermark_offsets(place, timeout=timeout_seconds)
        consumer.assign([place])
        next_offset = 0
        while next_offset < end:
            if time.monotonic() > deadline:
                raise NotReady(
                    f"read {next_offset} of {end} records of {topic}, then nothing for "
                    f"{timeout_seconds:.0f} s; check that the broker runs (lagbench status)"
                )
            read_before = next_offset
            for message in consumer.consume(_BATCH, timeout=0.2):
                value, offset = message.value(), message.offset()
                if message.error() is not None or value is None or offset is None:
                    continue
                next_offset = offset + 1
                try:
                    record = decode_record(value)
                except msgspec.DecodeError:  # somebody else's: the accounting counts it
                    continue
                yield record
            if next_offset > read_before:  # a long run has more than can be read in that time
                deadline = time.monotonic() + timeout_seconds
    except KafkaException as error:
        raise NotReady(
            f"could not read {topic} at {bootstrap_servers}: {error.args[0]}. "
            "Check that the broker runs (lagbench status)"
        ) from error
    finally:
        consumer.close()
