"""Which rows are the run's own, and when they happened on the recorder's clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from lagbench.core.ownership.run_facts import StreamPlan
from lagbench_spark import schemas
from lagbench_spark.rows import Rules

RULES = Rules(
    plan=StreamPlan(seqs=100, offset_ns=1_000, sample_ns=None),
    ends={0: 10, 2: 5},
    window=(50, 900),
    pod_shifts={"ahead": 7, "producer": 3},
    producer_shift=3,
    strangers={2: np.array([1, 4])},
)


def batch(schema: Any, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Return rows as one batch of a table."""
    (found,) = pa.Table.from_pylist(rows, schema=to_arrow_schema(schema)).to_batches()
    return found


def event(**fields: Any) -> dict[str, Any]:
    """Return an event of the run with other fields."""
    return {
        "partition": 0,
        "offset": 1,
        "seq": 5,
        "entity_id": 9,
        "planned_offset_ns": 10,
        "planned_at": 110,
        "logged_at": 120,
        "producer_id": 0,
        "size_bytes": 256,
        **fields,
    }


def done(**fields: Any) -> dict[str, Any]:
    """Return a processing with other fields."""
    return {
        "partition": 0,
        "offset": 1,
        "seq": 5,
        "entity_id": 9,
        "planned_at": 110,
        "started_at": 200,
        "done_at": 210,
        "pod": "a",
        "member_id": "m",
        "ledger_partition": 0,
        "ledger_offset": 0,
        **fields,
    }


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"seq": None, "producer_id": None}, "without the run's identity"),
        ({"producer_id": 1}, "of another producer"),
        ({"seq": 100}, "of a seq beyond those produced"),
        ({"seq": -1}, "of a seq beyond those produced"),
        ({"planned_offset_ns": 1_001}, "planned outside the stream"),
        ({"seq": 100, "producer_id": 1}, "of another producer"),
    ],
)
def test_a_stranger_has_one_reason(fields: dict[str, Any], reason: str | None) -> None:
    """It is in the one table or in the other."""
    rows = batch(schemas.EVENTS, [event(**fields)])

    own, foreign = RULES.own_events(rows), RULES.foreign_events(rows)

    assert (own.num_rows, foreign.num_rows) == ((1, 0) if reason is None else (0, 1))
    if reason is not None:
        (detail,) = foreign.column("detail").to_pylist()
        assert detail.endswith(reason)


def test_stamps_are_moved_to_the_recorders_clock() -> None:
    """The producer is 3 ns ahead, pod ``ahead`` 7 ns; of the others nothing is known."""
    rows = RULES.work(batch(schemas.PROCESSED, [done(pod="ahead"), done()])).rows

    assert rows.column("done_at").to_pylist() == [203, 210]
    assert rows.column("planned_at").to_pylist() == [107, 107]
    assert RULES.own_events(batch(schemas.EVENTS, [event()])).column("planned_at")[0].as_py() == 107


def test_work_outside_the_run_is_counted_and_moved_to_its_edge() -> None:
    """One row is from another century, one starts before the run; both stay."""
    work = RULES.work(batch(schemas.PROCESSED, [done(done_at=10**18), done(started_at=1), done()]))

    assert work.outside == 2
    assert work.rows.column("done_at").to_pylist() == [900, 210, 210]
    assert work.rows.column("started_at").to_pylist() == [200, 50, 200]


@pytest.mark.parametrize(
    ("partition", "offset", "kind"),
    [
        (0, 9, "own"),
        (0, 10, "beyond"),
        (1, 0, "beyond"),
        (3, 0, "beyond"),
        (-1, -1, "beyond"),
        (2, 3, "own"),
        (2, 4, "stranger"),
    ],
)
def test_work_is_of_a_message_a_stranger_or_of_no_place(
    partition: int, offset: int, kind: str
) -> None:
    """The fence says which places the log has; strangers are known by their places."""
    work = RULES.work(batch(schemas.PROCESSED, [done(partition=partition, offset=offset)]))

    found = {"own": work.is_own, "beyond": work.is_beyond, "stranger": work.is_on_stranger}
    assert [name for name, mask in found.items() if mask.all()] == [kind]
    assert work.own.num_rows == (kind == "own")


def test_what_is_no_ledger_record_is_no_work() -> None:
    """Its row has only a place and a reason."""
    nothing = dict.fromkeys(schemas.PROCESSED.names) | {"ledger_partition": 1, "ledger_offset": 2}
    rows = batch(schemas.PROCESSED, [{**nothing, "foreign": "3 bytes"}, done()])

    assert RULES.work(rows).rows.num_rows == 1
