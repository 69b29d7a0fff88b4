"""Spark reads the identity of a user's messages from their headers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.integration.local_spark import local_spark

from lagbench.shared_with_spark.event import EVENT_DTYPE
from lagbench.shared_with_spark.identity import IDENTITY_HEADER, identity_headers
from lagbench_spark import schemas
from lagbench_spark.decode import decode_events, event_headers

pytestmark = pytest.mark.slow

RECORDS = (
    "partition int, offset long, timestamp timestamp, value binary, "
    "headers array<struct<key: string, value: binary>>"
)


def test_only_the_runs_own_header_is_an_identity() -> None:
    """The first header of the name and of this run counts; all else keeps its place only."""
    events = np.zeros(2, EVENT_DTYPE)
    events["seq"], events["entity_id"], events["planned_offset_ns"] = (5, 6), (70, 80), (900, 950)
    own = [[("trace", b"x"), *found] for found in identity_headers(events, "r-1")]
    of_other = identity_headers(events, "r-2")[0]
    short = [(IDENTITY_HEADER, b"r-1")]
    records = [*own, of_other, short, [], None]
    spark = local_spark()
    rows = spark.createDataFrame(
        [(0, place, None, b"any bytes", headers) for place, headers in enumerate(records)], RECORDS
    ).selectExpr("partition", "offset", "timestamp'2026-01-01' timestamp", "value", "headers")
    found = event_headers(rows, run_id="r-1").toArrow().sort_by("offset").combine_chunks()

    (decoded,) = decode_events(found.to_batches(), 1_000)

    assert set(decoded.schema.names) == set(schemas.EVENTS.names)
    assert decoded["offset"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert decoded["seq"].to_pylist() == [5, 6, None, None, None, None]
    assert decoded["entity_id"].to_pylist() == [70, 80, None, None, None, None]
    assert decoded["planned_at"].to_pylist() == [1_900, 1_950, None, None, None, None]
    assert decoded["size_bytes"].to_pylist() == [9] * 6
