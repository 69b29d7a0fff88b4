"""The ledger that a consumer writes with the standard library alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lagbench import consumer_ledger
from lagbench.consumer_ledger import Ledger
from lagbench.shared_with_spark.event import EVENT_DTYPE, identity_headers
from lagbench_spark.decode import decode_ledger


def message(seq: int, partition: int, offset: int) -> Any:
    """Return a message as confluent-kafka gives it, with the producer's header."""
    event = np.zeros(1, EVENT_DTYPE)
    event["seq"], event["entity_id"], event["planned_offset_ns"] = seq, 7, 2_000
    (headers,) = identity_headers(event, "spike-1")
    return SimpleNamespace(
        partition=lambda: partition, offset=lambda: offset, headers=lambda: headers
    )


def decoded(values: list[bytes]) -> list[dict[str, Any]]:
    """Return the rows that the accounting reads."""
    batch = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([0] * len(values), pa.int32()),
            "offset": pa.array(range(len(values)), pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )
    return [row for rows in decode_ledger([batch], 1_000) for row in rows.to_pylist()]


def test_the_accounting_reads_what_the_module_writes() -> None:
    """Each finished message is a row with its identity, its place, its instants and its pod."""
    written: list[tuple[str, bytes]] = []
    ticks = iter(range(100, 200, 10))
    ledger = Ledger(
        lambda topic, value: written.append((topic, value)),
        topic="ledger",
        pod="consumer-1",
        clock=lambda: next(ticks),
    )
    for seq, partition, offset in ((4, 2, 10), (5, 2, 11), (6, 3, 0)):
        with ledger.work(message(seq, partition, offset)):
            pass
    ledger.write()

    assert [topic for topic, _ in written] == ["ledger", "ledger"]
    rows = decoded([value for _, value in written])
    assert [(row["partition"], row["offset"], row["seq"]) for row in rows] == [
        (2, 10, 4),
        (2, 11, 5),
        (3, 0, 6),
    ]
    assert {row["pod"] for row in rows} == {"consumer-1"}
    assert [(row["started_at"], row["done_at"]) for row in rows[:2]] == [(100, 110), (120, 130)]
    assert {row["planned_at"] for row in rows} == {3_000}
    assert {row["foreign"] for row in rows} == {None}


def test_work_that_fails_is_not_in_the_ledger() -> None:
    """An error in the block is the consumer's own, and its message is not processed."""
    written: list[bytes] = []
    ledger = Ledger(lambda _, value: written.append(value), topic="ledger", pod="p")

    with pytest.raises(ZeroDivisionError), ledger.work(message(1, 0, 0)):
        raise ZeroDivisionError
    ledger.write()

    assert written == []


def test_outside_of_a_rehearsal_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the bench's variable the module stays in the code and does nothing."""
    monkeypatch.delenv(consumer_ledger.TOPIC_VARIABLE, raising=False)
    written: list[bytes] = []
    ledger = Ledger(lambda _, value: written.append(value))

    with ledger.work(message(1, 0, 0)):
        pass
    ledger.write()

    assert written == []


def test_a_garbled_record_is_foreign() -> None:
    """A record that only begins like one of the module is one row with a reason."""
    (row,) = decoded([consumer_ledger.MAGIC + b"\x05\x00\x00\x00{bad"])

    assert row["foreign"] is not None


def test_the_module_needs_only_the_standard_library(tmp_path: Path) -> None:
    """The one file runs alone, in an interpreter without any package."""
    copy = tmp_path / "ledger.py"
    copy.write_text(Path(consumer_ledger.__file__).read_text())

    done = subprocess.run(
        [sys.executable, "-I", "-S", str(copy)], capture_output=True, check=False, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_queue_repeats_no_row() -> None:
    """What the producer took before it refused is not handed over again."""
    taken: list[bytes] = []
    room = iter([True, False, True])

    def produce(_topic: str, value: bytes) -> None:
        if not next(room):
            raise BufferError
        taken.append(value)

    ledger = Ledger(produce, topic="ledger", pod="consumer-1")
    for partition in (2, 3):
        with ledger.work(message(4, partition, 10)):
            pass
    with pytest.raises(BufferError):
        ledger.write()
    ledger.write()

    assert sorted(row["partition"] for row in decoded(taken)) == [2, 3]
