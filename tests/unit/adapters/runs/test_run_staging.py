"""A run's second folder, where Spark sees it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.run_staging import Staging
from lagbench.errors import NotReady

RUN_ID = "run-1"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return a fenced run."""
    made = RunFolder.create(RUN_ID, tmp_path / "runs")
    made.write_json(made.fence, {"events": {"0": 1}})
    return made


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    """Return an empty place of the run."""
    return Staging.in_folder(str(tmp_path / "volume"), RUN_ID)


def _write(folder: Path, table: str, value: int) -> None:
    (folder / "tables" / table).mkdir(parents=True, exist_ok=True)
    path = folder / "tables" / table / "part-0.parquet"
    pq.write_table(pa.table({"value": [value]}), path)


def _value(folder: Path, table: str) -> int:
    found: int = pq.read_table(folder / "tables" / table).column("value")[0].as_py()
    return found


def test_the_pipeline_gets_the_fence(folder: RunFolder, staging: Staging, tmp_path: Path) -> None:
    """Nothing else is copied."""
    staging.put(folder)

    there = tmp_path / "volume" / RUN_ID
    assert (there / "fence.json").read_text() == folder.read_text(folder.fence)
    assert [path.name for path in there.iterdir()] == ["fence.json"]


def test_fetching_replaces_what_is_there(
    folder: RunFolder, staging: Staging, tmp_path: Path
) -> None:
    """Tables and accounting of Spark take the place of older ones; other tables stay."""
    there = tmp_path / "volume" / RUN_ID
    staging.put(folder)
    _write(folder.path, "events", 1)
    (folder.table("events") / "part-of-an-older-attempt.parquet").write_bytes(b"")
    _write(folder.path, "own", 7)
    _write(there, "events", 2)
    _write(there, "bad_messages", 3)
    (there / "accounting.json").write_text('{"lost": 0}')

    staging.fetch(folder)

    tables = ("events", "bad_messages", "own")
    assert [_value(folder.path, table) for table in tables] == [2, 3, 7]
    assert folder.read_json(folder.accounting) == {"lost": 0}
    assert not list(folder.path.glob(".fetched-*"))


def test_nothing_to_fetch_changes_nothing(folder: RunFolder, staging: Staging) -> None:
    """A job that wrote no table leaves the run as it is."""
    staging.put(folder)
    _write(folder.path, "events", 1)

    staging.fetch(folder)

    assert _value(folder.path, "events") == 1
    assert not folder.accounting.exists()


def test_a_place_that_cannot_be_written_is_named(folder: RunFolder, tmp_path: Path) -> None:
    """The message has the place, the cause and what to check."""
    (tmp_path / "volume").write_text("a file")

    with pytest.raises(NotReady, match="/volume/run-1") as failed:
        Staging.in_folder(str(tmp_path / "volume"), RUN_ID).put(folder)

    assert "lagbench_runs" in str(failed.value)


def test_an_object_store_that_does_not_answer_is_named(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials are those of the environment, and no message shows them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    staging = Staging.in_s3(
        "s3a://bench/runs", RUN_ID, endpoint="http://127.0.0.1:9", region="us-east-1"
    )

    with pytest.raises(NotReady, match="bench/runs/run-1") as failed:
        staging.put(folder)

    assert "hunter2" not in str(failed.value)
