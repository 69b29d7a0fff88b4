"""The file of an observation when the disk takes no more."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lagbench.core.telemetry.recorder import LagSample
from lagbench.errors import NotReady
from lagbench.programs.recorder.observation import GroupObserver, RecordsFile
from lagbench.programs.recorder.sampling_grid import GridSampler
from lagbench.results.observed_run import read_records


def _sample(at: int) -> LagSample:
    return LagSample(at=at, source="observer", partitions=[(0, 10, 5)])


@contextmanager
def _full_disk(path: Path) -> Iterator[None]:
    """Let files take 20 bytes more than ``path`` has: a short write, then an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class HalfAtATime:
    """A file that takes half of what it is given."""

    closed = False

    def __init__(self, file: Any) -> None:
        """Write to ``file``."""
        self._file = file

    def write(self, data: Any) -> int:
        """Write the first half."""
        return int(self._file.write(data[: (len(data) + 1) // 2]))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    """Else the rest of the line would be lost, and the next record with it."""
    records = RecordsFile(tmp_path / "records.jsonl")
    file: Any = HalfAtATime(records._file)
    records._file = file
    for at in (1, 2):
        records.write(_sample(at))
    records.close()

    assert read_records(tmp_path / "records.jsonl") == [_sample(1), _sample(2)]


def test_a_full_disk_ends_the_file_and_not_the_thread_that_reads(tmp_path: Path) -> None:
    """The records before it are whole, and none is written after half a line."""
    path = tmp_path / "records.jsonl"
    records = RecordsFile(path)
    sampler = GridSampler(
        "lag",
        lambda at: [_sample(at)],
        send=records.write,
        source="observer",
        origin_at=0,
        interval_ns=1_000_000_000,
    )
    sampler.sample(1)
    with _full_disk(path):
        sampler.sample(2)
    sampler.sample(3)
    records.close()

    assert records.problem is not None
    assert read_records(path) == [_sample(1)]


def test_an_observation_that_cannot_write_ends_with_the_reason(tmp_path: Path) -> None:
    """A display of stale figures until the end would hide it."""
    path = tmp_path / "records.jsonl"
    observer = GroupObserver(
        path, {"bootstrap.servers": "127.0.0.1:1"}, group="g", topic="t", cluster=None
    )
    with _full_disk(path):
        observer.records.write(_sample(1))
    with pytest.raises(NotReady, match="File too large"):
        observer.wait(60)
    observer.records.close()
