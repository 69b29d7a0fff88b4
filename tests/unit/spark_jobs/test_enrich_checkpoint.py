"""The checkpoint of a query, as Spark 4.2 writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lagbench.errors import NotReady, WrongInput
from lagbench_enrich.offsets import checkpointed

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
