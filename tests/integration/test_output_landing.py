"""Spark reads a consumer's output topic as its ledger, by the headers that it passed on."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from tests.integration.local_spark import local_spark
from tests.integration.test_payload_landing import RECORDS

from lagbench.shared_with_spark.event import EVENT_DTYPE
from lagbench.shared_with_spark.identity import identity_headers
from lagbench_spark import schemas
from lagbench_spark.decode import output_rows

pytestmark = pytest.mark.slow

AT = datetime(2026, 1, 1, tzinfo=UTC)
AT_NS = int(AT.timestamp()) * 1_000_000_000


def test_each_record_of_the_output_is_a_processing_of_the_message_that_it_names() -> None:
    """Place and plan come from the log, the instant from the broker, the order from the output."""
    events = np.zeros(3, EVENT_DTYPE)
    events["seq"], events["entity_id"] = (5, 6, 9), (70, 80, 90)
    headers = [*identity_headers(events, "r-1"), identity_headers(events, "r-2")[0], None]
    spark = local_spark()
    written = spark.createDataFrame(
        [
            (1, place, AT, b"out", found)
            for place, found in enumerate([headers[1], headers[0], headers[1], *headers[2:]])
        ],
        RECORDS,
    )
    log = spark.createDataFrame(
        [(3, 40, 5, 70, 0, 111, 0, 0, 9), (3, 41, 6, 80, 0, 222, 0, 0, 9)],
        schemas.spark_schema(schemas.EVENTS),
        verifySchema=False,
    )

    rows = [
        row.asDict()
        for row in output_rows(written, log, run_id="r-1").orderBy("ledger_offset").collect()
    ]

    assert set(rows[0]) == set(schemas.PROCESSED.names)
    assert [(row["partition"], row["offset"], row["seq"]) for row in rows] == [
        (3, 41, 6),
        (3, 40, 5),
        (3, 41, 6),
        (-1, -1, 9),  # of no message in the log
        (None, None, None),  # of another run
        (None, None, None),  # the consumer dropped the header
    ]
    assert [row["done_at"] for row in rows[:4]] == [AT_NS, AT_NS + 1, AT_NS + 2, AT_NS + 3]
    assert [row["planned_at"] for row in rows[:3]] == [222, 111, 222]
    assert {row["pod"] for row in rows[:4]} == {"output-1"}
    assert [row["foreign"] is None for row in rows] == [True] * 4 + [False] * 2
    assert " 3 bytes" in rows[5]["foreign"]
