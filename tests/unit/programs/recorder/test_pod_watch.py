"""Following pods through lists, changes and broken watches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from lagbench.adapters.kube.client.object_events import Event
from lagbench.core.telemetry.record import Record
from lagbench.core.telemetry.recorder import PodSeen, PodsListed, ReadGap
from lagbench.programs.recorder.pod_watch import PodWatch


def pod(name: str, **annotations: str) -> dict[str, Any]:
    """Return a pod of localkube."""
    notes = {f"lagbench.io/{key}-at-ns": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "annotations": notes}}


def listed(*pods: dict[str, Any]) -> dict[str, Any]:
    """Return a list of pods."""
    return {"metadata": {"resourceVersion": "1"}, "items": list(pods)}


def watch() -> tuple[PodWatch, list[Record]]:
    """Return a watch that is fed by hand, and what it sends."""
    sent: list[Record] = []
    return PodWatch(lambda: iter(()), sent.append, "recorder"), sent


def reported(records: list[Record]) -> list[tuple[str, int | None, int | None]]:
    """Return name, ready and gone instants of the records."""
    return [(r.pod, r.ready_at, r.gone_at) for r in records if isinstance(r, PodSeen)]


def test_a_record_is_sent_for_each_change_and_only_then() -> None:
    """What does not matter to the record is no news."""
    running, sent = watch()
    running.take("LISTED", listed(pod("a", created="1")), at=10)
    running.take("MODIFIED", pod("a", created="1") | {"status": {"hostIP": "x"}}, at=11)
    running.take("MODIFIED", pod("a", created="1", ready="5"), at=12)
    running.take("DELETED", pod("a", created="1", ready="5"), at=13)

    assert reported(sent) == [("a", None, None), ("a", 5, None), ("a", 5, 13)]


def test_a_pod_that_was_deleted_in_a_gap_has_ended_at_the_next_list() -> None:
    """After a break of the watch the list tells what is no longer there."""
    running, sent = watch()
    running.take("LISTED", listed(pod("a", created="1"), pod("b", created="2")), at=10)
    running.take("LISTED", listed(pod("b", created="2")), at=20)

    assert reported(sent) == [("a", None, None), ("b", None, None), ("a", None, 20)]


def test_the_first_list_says_which_pods_are_there() -> None:
    """Only the first: what went away later, this process sees itself."""
    running, sent = watch()
    running.take("LISTED", listed(pod("b"), pod("a")), at=10)
    running.take("LISTED", listed(pod("b")), at=20)

    found = [record for record in sent if isinstance(record, PodsListed)]
    assert [(record.at, record.pods) for record in found] == [(10, ["a", "b"])]


def test_a_broken_watch_is_a_gap() -> None:
    """The reason is told, then it continues."""
    sent: list[Record] = []
    has_gap = threading.Event()

    def events() -> Iterator[Event]:
        raise ConnectionError("connection refused")
        yield  # makes it a generator

    def send(record: Record) -> None:
        sent.append(record)
        has_gap.set()

    running = PodWatch(events, send, "recorder")
    running.start()
    assert has_gap.wait(60)
    running.stop()
    running.join(60)

    assert isinstance(sent[0], ReadGap)
    assert (sent[0].what, sent[0].reason) == ("pods", "connection refused")
    assert not running.is_alive()
