"""Following pods through lists, changes and broken watches."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from lagbench.adapters.kube.kube_client import Event
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import LagSample, PodSeen, PodsListed, ReadGap
from lagbench.errors import NotReady
from lagbench.programs.recorder.grid_sampler import GridSampler
from lagbench.programs.recorder.pod_watch import ObjectWatch, PodWatch, pod_seen
from lagbench.programs.recorder.scaling_watch import ReplicaWatch, Scaled
from lagbench.programs.recorder.sources import GroupObserver, RecordsFile
from lagbench.results.observed_run import read_records


def pod(name: str, **annotations: str) -> dict[str, Any]:
    """Return a pod of localkube."""
    notes = {f"lagbench.io/{key}-at-ns": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "annotations": notes}}


def listed(*pods: dict[str, Any]) -> dict[str, Any]:
    """Return a list of pods."""
    return {"metadata": {"resourceVersion": "1"}, "items": list(pods)}


BEFORE = [("LISTED", listed(pod("b", created="2"), pod("a", created="1")))]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # What does not matter to the record is no news.
        (
            [
                ("LISTED", listed(pod("a", created="1"))),
                ("MODIFIED", pod("a", created="1") | {"status": {"hostIP": "x"}}),
                ("MODIFIED", pod("a", created="1", ready="5")),
                ("DELETED", pod("a", created="1", ready="5")),
            ],
            [("a", None, None), ("a", 5, None), ("a", 5, 13)],
        ),
        # After a break of the watch the list says what is no longer there.
        (
            [*BEFORE, ("LISTED", listed(pod("b", created="2")))],
            [("b", None, None), ("a", None, None), ("a", None, 11)],
        ),
    ],
)
def test_a_record_is_sent_for_each_change_and_only_then(
    events: list[Event], expected: list[tuple[str, int | None, int | None]]
) -> None:
    """And at first which pods are there: what went away later, this process sees itself."""
    sent: list[Record] = []
    running = PodWatch(lambda: iter(()), sent.append, "recorder")
    for at, (kind, found) in enumerate(events, start=10):
        running.take(kind, found, at=at)

    seen = [(r.pod, r.ready_at, r.gone_at) for r in sent if isinstance(r, PodSeen)]
    assert seen == expected
    first = sorted({name for name, _, gone_at in expected if gone_at is None})
    lists = [(record.at, record.pods) for record in sent if isinstance(record, PodsListed)]
    assert lists == [(10, first)]


SECOND = 1_000_000_000
DAY = "2026-11-21T"
ENDED = {"exitCode": 137, "reason": "Error", "startedAt": f"{DAY}10:00:02Z"}
LAST = {"terminated": ENDED | {"finishedAt": f"{DAY}10:00:09Z"}}
RUNNING = {"state": {"running": {"startedAt": f"{DAY}10:00:02Z"}}}
REMOVED = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}


def instant(text: str) -> int:
    """Return unix nanoseconds of a time of 2026-11-21."""
    return int(datetime.fromisoformat(f"{DAY}{text}").replace(tzinfo=UTC).timestamp()) * SECOND


def seen(metadata: dict[str, Any] | None = None, *containers: dict[str, Any], **status: Any) -> Any:
    """Return what a pod as a cluster shows it says."""
    created = {"name": "consumer-1", "uid": "u-1", "creationTimestamp": f"{DAY}10:00:00Z"}
    found = {
        "metadata": created | (metadata or {}),
        "status": {"containerStatuses": list(containers), **status},
    }
    return pod_seen(found, at=1, source="recorder", gone_at=120)


def exact(**instants: str) -> dict[str, Any]:
    """Return the metadata in which localkube notes instants."""
    return {"annotations": {f"lagbench.io/{name}-at-ns": at for name, at in instants.items()}}


def ready(status: str) -> dict[str, Any]:
    """Return a condition."""
    return {"type": "Ready", "status": status, "lastTransitionTime": f"{DAY}10:00:04Z"}


def failed(*ends: str | None) -> Any:
    """Return an evicted pod whose containers ended then."""
    states = [{"state": {"terminated": {"exitCode": 137, "finishedAt": end}}} for end in ends]
    return seen(None, *states, phase="Failed", reason="Evicted")


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        # metav1.Time has seconds only, and the record says so.
        (
            seen(None, RUNNING, conditions=[ready("True")]),
            {
                "created_at": instant("10:00:00"),
                "started_at": instant("10:00:02"),
                "ready_at": instant("10:00:04"),
                "deleted_at": None,
                "exit_code": None,
                "precision_ns": SECOND,
            },
        ),
        # Annotations in nanoseconds win over the rounded fields.
        (
            seen(exact(created="17", started="23", ready="42", deleted="99"), RUNNING),
            {"created_at": 17, "started_at": 23, "ready_at": 42, "deleted_at": 99}
            | {"gone_at": 120, "precision_ns": 1},
        ),
        # A condition that is False is not an instant, and none is no zero.
        (seen(None, conditions=[ready("False")]), {"ready_at": None, "started_at": None}),
        # DeletionTimestamp lies in the future by the grace period.
        (
            seen({"deletionTimestamp": f"{DAY}10:05:40Z", "deletionGracePeriodSeconds": 40}),
            {"deleted_at": instant("10:05:00")},
        ),
        (
            seen(None, {"state": {"terminated": ENDED}}),
            {"exit_code": 137, "exit_reason": "Error", "started_at": instant("10:00:02")},
        ),
        # The restart is already counted on localkube, and the end before it is still shown.
        (
            seen(None, {"restartCount": 1, "state": LAST, "lastState": LAST}),
            {"containers_ended": 1},
        ),
        # It waited in back-off when it was removed, and its kill before that is counted.
        (
            seen(None, {"restartCount": 2, "state": REMOVED, "lastState": LAST}),
            {"containers_ended": 2},
        ),
        # Its object stays: the last container's end is the end of its time.
        (
            failed(f"{DAY}10:01:02Z", f"{DAY}10:01:00Z"),
            {"phase": "Failed", "finished_at": instant("10:01:02")},
        ),
        # A pod that its node rejected has no container; of one that was lost no end is told.
        (failed(), {"phase": "Failed", "finished_at": None}),
        (failed(None), {"finished_at": None}),
        # A consumer that crashed continues in the same pod.
        (seen(None, {"state": LAST}, phase="Running"), {"finished_at": None}),
    ],
)
def test_a_pod_says(record: Any, fields: dict[str, Any]) -> None:
    """What is not known is None."""
    assert {name: getattr(record, name) for name in fields} == fields


def test_a_second_kill_of_the_container_is_another_record() -> None:
    """Its first start and its exit code stay the same on localkube: the ends are counted."""
    ended = {"terminated": ENDED}
    first, again, second = (
        seen(exact(started="23"), state)
        for state in (
            {"restartCount": 0, "state": ended},
            {"restartCount": 1, "state": {"running": {}}, "lastState": ended},
            {"restartCount": 1, "state": ended},
        )
    )

    assert [one.containers_ended for one in (first, again, second)] == [1, 1, 2]
    assert first == again != second


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


@pytest.mark.parametrize("is_sampled", [False, True])
def test_a_silent_watch_has_a_gap_since_its_last_event(
    monkeypatch: pytest.MonkeyPatch, *, is_sampled: bool
) -> None:
    """A partition shows when the read times out: 35 s are not seen, not one instant.

    The sampler of the replicas reports its own gaps: the break of their watch is one instant.
    """
    api, sent = HangingApi(monkeypatch), list[Record]()

    def send(record: Record) -> None:
        sent.append(record)
        if isinstance(record, ReadGap):
            watch.stop()

    watch: ObjectWatch = PodWatch(api.events, send, "recorder")
    if is_sampled:
        watch = ReplicaWatch(api.events, Scaled("consumer", send, "recorder", Mock()))
    watch.run()

    gaps = [record for record in sent if isinstance(record, ReadGap)]
    expected = [145] if is_sampled else [*range(110, 145), 145]
    assert [gap.at / SECOND for gap in gaps] == expected
    assert (gaps[0].what, gaps[0].reason) == (
        "replicas" if is_sampled else "pods",
        "read timed out",
    )


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


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    """Else the rest of the line would be lost, and the next record with it."""
    records = RecordsFile(tmp_path / "records.jsonl")
    whole: Any = records._file
    half: Any = SimpleNamespace(
        closed=False,
        write=lambda data: whole.write(data[: (len(data) + 1) // 2]),
        close=whole.close,
    )
    records._file = half
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
