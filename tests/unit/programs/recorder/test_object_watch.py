"""What a watch that breaks says of the time before."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lagbench.adapters.kube.client.api_discovery import Event
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import LagSample, ReadGap
from lagbench.errors import NotReady
from lagbench.programs.recorder.observation import GroupObserver, RecordsFile
from lagbench.programs.recorder.pod_watch import ObjectWatch, PodWatch
from lagbench.programs.recorder.sampling_grid import GridSampler
from lagbench.programs.recorder.scaling_watch import ReplicaWatch
from lagbench.results.observed_run import read_records

SECOND = 1_000_000_000

EMPTY = {"metadata": {"resourceVersion": "1"}, "items": []}


class HangingApi:
    """A list at 100 s, an event at 110 s, then 35 s of silence until the read times out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Be the watch's clock as well."""
        self.now = 100 * SECOND
        clock = SimpleNamespace(time_ns=lambda: self.now)
        monkeypatch.setattr("lagbench.programs.recorder.pod_watch.time", clock)

    def events(self) -> Iterator[Event]:
        """Yield what comes before the silence."""
        yield "LISTED", EMPTY
        self.now += 10 * SECOND
        yield "BOOKMARK", {}
        self.now += 35 * SECOND
        raise TimeoutError("read timed out")


def gaps_of(build: Callable[[Callable[[Record], None]], ObjectWatch]) -> list[float]:
    """Return the seconds of the gaps that a watch tells until its first failure has ended."""
    sent: list[Record] = []

    def send(record: Record) -> None:
        sent.append(record)
        if isinstance(record, ReadGap):
            watch.stop()

    watch = build(send)
    watch.run()
    return [record.at / SECOND for record in sent if isinstance(record, ReadGap)]


def test_a_silent_watch_has_a_gap_since_its_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition shows when the read times out: 35 s are not seen, not one instant."""
    api = HangingApi(monkeypatch)

    gaps = gaps_of(lambda send: PodWatch(api.events, send, "recorder"))

    assert gaps == [*range(110, 145), 145]


def test_objects_that_are_sampled_too_have_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler of the replicas tells its own gaps: the watch's break is one instant."""
    api = HangingApi(monkeypatch)

    gaps = gaps_of(lambda send: ReplicaWatch(api.events, send, "recorder", deployment="consumer"))

    assert gaps == [145]


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
