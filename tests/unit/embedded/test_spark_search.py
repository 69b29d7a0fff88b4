"""The kept outcomes of searches on Spark."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lagbench.embedded.spark_search import SparkSearch


def test_outcomes_are_kept_for_a_week(tmp_path: Path) -> None:
    """The next search removes older ones, so that the folder has a bound."""
    young, old = (tmp_path / f"part-{name}.parquet" for name in ("young", "old"))
    for path in (young, old):
        pq.write_table(pa.table({"key": ["k"], "rows": ["[[1.0]]"]}), path)
    then = time.time() - 8 * 86_400
    os.utime(old, (then, then))

    assert list(SparkSearch("local[1]", tmp_path, lambda _: [], print)([])) == []
    assert sorted(tmp_path.iterdir()) == [young]
