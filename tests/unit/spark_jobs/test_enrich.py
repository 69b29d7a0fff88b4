"""The checkpoint of a query, as Spark 4.2 writes it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyspark
import pytest

from lagbench.errors import NotReady, WrongInput
from lagbench.shared_with_spark.event import EVENT_BYTES, EVENT_DTYPE
from lagbench_enrich.offsets import checkpointed
from lagbench_enrich.session import EnrichOptions, open_session, parse_options
from lagbench_enrich.task import events_in

TOPIC = "lagbench.one.events"


def _log(folder: Path, batch: int, topic: str, **ends: int) -> None:
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps({topic: ends})]
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))


def _commit(folder: Path, batch: int) -> None:
    (folder / "commits").mkdir(parents=True, exist_ok=True)
    (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_the_last_committed_batch_counts(tmp_path: Path) -> None:
    """A planned batch that was not committed is done again: its offsets are not read yet."""
    for batch in (8, 9, 10):
        _log(tmp_path, batch, TOPIC, **{"0": batch, "1": 2 * batch})
    _commit(tmp_path, 8)
    _commit(tmp_path, 9)

    assert checkpointed(f"file://{tmp_path}", TOPIC) == {0: 9, 1: 18}


def test_a_new_checkpoint_has_no_offsets(tmp_path: Path) -> None:
    """An absent folder, and one whose first batch is not committed, are no offsets: not zero."""
    assert checkpointed(str(tmp_path / "none"), TOPIC) is None
    _log(tmp_path, 0, TOPIC, **{"0": 5})

    assert checkpointed(str(tmp_path), TOPIC) is None


def test_a_checkpoint_of_another_topic_is_rejected(tmp_path: Path) -> None:
    """Spark would start the query and then fail, or read from the beginning."""
    _log(tmp_path, 0, "orders", **{"0": 5})

    with pytest.raises(WrongInput, match="topic orders"):
        checkpointed(str(tmp_path), TOPIC)


def test_a_damaged_checkpoint_is_not_ready(tmp_path: Path) -> None:
    """Half a file is reported with its path."""
    _log(tmp_path, 0, TOPIC)
    (tmp_path / "offsets" / "0").write_text("v1\n{")

    with pytest.raises(NotReady, match="offsets/0"):
        checkpointed(str(tmp_path), TOPIC)


VARIABLES = {
    "POD_NAME": "driver",
    "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
    "SPARK_STREAM_MASTER_URL": "spark://10.0.0.1:7077",
    "SPARK_STREAM_CHECKPOINT": "/checkpoint/a-run",
}


def options(jars: str) -> EnrichOptions:
    """Return the options of a driver with these jars."""
    return parse_options(["--run-id=a-run"], {**VARIABLES, "SPARK_STREAM_JARS": jars})


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    """The first one that is not there, with what it should be."""
    (tmp_path / "a.jar").touch()

    with pytest.raises(WrongInput, match=r"b\.jar.*spark-sql-kafka-0-10"):
        open_session(options(f"{tmp_path}/a.jar,{tmp_path}/b.jar"))


def test_an_image_without_the_connector_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without jars of its own the driver needs the connector beside Spark's."""
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "__init__.py"))

    with pytest.raises(WrongInput, match="spark-sql-kafka-0-10"):
        open_session(options(""))


def test_records_of_others_are_passed_over() -> None:
    """A tombstone and a short value do not end the query: they would at each start again."""
    events = np.zeros(2, EVENT_DTYPE)
    events["seq"] = (4, 5)
    first, second = (event.tobytes() for event in events)
    assert len(first) == EVENT_BYTES

    is_event, found = events_in(pa.array([first, None, b"short", second], pa.binary()))

    assert is_event.tolist() == [True, False, False, True]
    assert found["seq"].tolist() == [4, 5]


def test_a_batch_without_events_has_none() -> None:
    """All its records are foreign."""
    is_event, found = events_in(pa.array([None, b""], pa.binary()))

    assert (is_event.tolist(), len(found)) == ([False, False], 0)
