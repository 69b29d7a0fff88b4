"""The accounting of a topic that grew: moved keys are named, and order is judged by partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.integration.local_spark import local_spark
from tests.unit.spark_jobs.mutations import swap_two_starts
from tests.unit.spark_jobs.synthetic_run import (
    GROWS_NS,
    MILLISECOND,
    SyntheticRun,
    clean_run,
    grown_run,
    hold_up,
    moved,
    overtaken_seqs,
    write_run,
)

from lagbench.shared_with_spark import message_classes
from lagbench_spark.accounting import account
from lagbench_spark.landing import read_run
from lagbench_spark.run_folder import RunFolder, parse_fence

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """Provide the process's session."""
    return local_spark()


def accounted(spark: SparkSession, folder: Path, run: SyntheticRun) -> dict[str, Any]:
    """Return accounting.json of a run."""
    write_run(run, folder)
    run_folder = RunFolder(spark, str(folder))
    content = account(read_run(run_folder, parse_fence(run_folder.read_json("fence.json"))))
    spark.catalog.clearCache()
    return content


def found(content: dict[str, Any]) -> dict[str, int]:
    """Return the classes that are not zero."""
    return {kind: content[kind] for kind in message_classes.CLASSES if content[kind]}


def test_a_run_whose_topic_does_not_grow_has_no_moved_keys(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Without a growth there is no count, and no table."""
    content = accounted(spark, tmp_path, clean_run())

    assert content["moved_keys"] is None
    assert not (tmp_path / "tables" / "moved_keys").exists()


def test_moved_keys_are_named_and_a_clean_growth_breaks_no_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each key with messages in two partitions is listed with them; nothing was overtaken."""
    run = grown_run()
    truth = moved(run)

    content = accounted(spark, tmp_path, run)

    assert found(content) == {}
    rows = spark.read.parquet(str(tmp_path / "tables" / "moved_keys")).collect()
    assert {row["entity_id"]: row["partitions"] for row in rows} == truth
    assert len(truth) > 100
    assert content["moved_keys"] == {
        "keys": len(truth),
        "messages": sum(row["messages"] for row in rows),
        "overtaken_keys": 0,
        "overtaken": 0,
        "overtaken_in_doubt": 0,
        "most_seconds": None,
    }


def test_a_message_that_waits_in_the_former_partition_is_overtaken_and_not_reordered(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A lag in a former partition breaks the order of moved keys: counted, and no fault."""
    run = grown_run()
    hold_up(run, 0, from_ns=GROWS_NS - 4_000 * MILLISECOND, by_ns=6_000 * MILLISECOND)
    truth = overtaken_seqs(run)

    content = accounted(spark, tmp_path, run)

    assert found(content) == {}
    assert content["moved_keys"]["overtaken"] == len(truth) > 5
    assert content["moved_keys"]["overtaken_in_doubt"] == 0
    assert 0 < content["moved_keys"]["most_seconds"] < 6
    rows = spark.read.parquet(str(tmp_path / "tables" / "moved_keys")).collect()
    assert sum(row["overtaken"] for row in rows) == len(truth)


def test_a_wrong_order_within_a_partition_is_still_reordered(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two neighbours begun in the wrong order are reordered, also in a run that grew.

    Of a store Spark brings the rows of each partition together: the same accounting.
    """
    contents = []
    for name in ("disk", "store"):
        if name == "store":
            monkeypatch.setattr(RunFolder, "local_path", lambda *_: None)
        run = grown_run()
        swap_two_starts(run)
        contents.append(accounted(spark, tmp_path / name, run))

    assert contents[0] == contents[1]
    assert found(contents[1]) == {"reordered": 1}
    assert contents[1]["moved_keys"]["overtaken"] == 0
