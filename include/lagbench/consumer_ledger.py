"""Write a ledger of what a consumer has processed, for ``consumer.accounting: ledger``.

It needs nothing but Python's standard library, so this one file can be copied beside a consumer::

    ledger = Ledger(producer.produce)       # any function of a topic and a value in bytes
    ...
    with ledger.work(message):
        process(message)
    ...
    ledger.write()                          # before the commit, then wait for the producer
    producer.flush()
    consumer.commit()

The producer is idempotent (a retry of another one looks like a message done twice), and its
``on_delivery`` raises an error: ``flush`` also ends when a record could not be delivered.
A message is one of confluent-kafka (``message.offset()``) or of kafka-python (``message.offset``).
The bench sets the topic and the pod's name in the environment; elsewhere nothing is written.
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TOPIC_VARIABLE, POD_VARIABLE = "LAGBENCH_LEDGER_TOPIC", "LAGBENCH_POD"
MAGIC = b"lagbench-ledger-1\n"
"""Begins a record; behind it the length of the header (u32), the header as JSON, then the rows."""
LENGTH_BYTES, ROW = 4, struct.Struct("<6q")
"""A row: offset, seq, entity, planned offset (ns), begun and done (unix ns); little endian."""
_HEADER, _IDENTITY = "lagbench-id", struct.Struct("<QQqI")
_Row = tuple[int, int, int, int, int, int]


class Ledger:
    """Collects the rows of finished messages, and writes one record for each partition."""

    def __init__(
        self,
        produce: Callable[[str, bytes], Any],
        *,
        topic: str | None = None,
        pod: str | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Write with ``produce``; without a topic, here or in the environment, nothing is written.

        :param clock: unix time in nanoseconds.
        """
        self._produce, self._clock = produce, clock
        self._topic = topic or os.environ.get(TOPIC_VARIABLE, "")
        self._pod = pod or os.environ.get(POD_VARIABLE, "")
        self._rows: defaultdict[int, list[_Row]] = defaultdict(list)

    @contextmanager
    def work(self, message: Any) -> Iterator[None]:
        """Note the message as processed when the block has ended without an error."""
        started_at = self._clock()
        yield
        identity = _identity(_read(message, "headers") or ())
        if identity is not None and self._topic:
            seq, entity, planned, _ = identity
            row = (_read(message, "offset"), seq, entity, planned, started_at, self._clock())
            self._rows[_read(message, "partition")].append(row)

    def write(self) -> None:
        """Hand the rows so far to the producer; what it does not take, the next call hands over."""
        while self._rows:
            partition, rows = next(iter(self._rows.items()))
            header = {"partition": partition, "pod": self._pod, "member_id": ""}
            self._produce(self._topic, record_of(header, rows))
            del self._rows[partition]


def record_of(header: dict[str, Any], rows: list[_Row]) -> bytes:
    """Return the value of a record in the ledger."""
    text = json.dumps(header).encode()
    length = len(text).to_bytes(LENGTH_BYTES, "little")
    return b"".join((MAGIC, length, text, *(ROW.pack(*row) for row in rows)))


def _identity(headers: Any) -> tuple[int, int, int, int] | None:
    """Return seq, entity, planned offset and producer of the message; None: it has no identity."""
    for name, value in headers:
        if name == _HEADER and value is not None and len(value) >= _IDENTITY.size:
            return _IDENTITY.unpack_from(value)
    return None


def _read(message: Any, name: str) -> Any:
    found = getattr(message, name)
    return found() if callable(found) else found
