"""What a watch that breaks says of the time before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from lagbench.adapters.kube.client.object_events import Event
from lagbench.core.telemetry.record import Record
from lagbench.core.telemetry.recorder import ReadGap
from lagbench.programs.recorder.object_watch import ObjectWatch
from lagbench.programs.recorder.pod_watch import PodWatch
from lagbench.programs.recorder.scaling_watch import ReplicaWatch

SECOND = 1_000_000_000
EMPTY = {"metadata": {"resourceVersion": "1"}, "items": []}


class HangingApi:
    """A list at 100 s, an event at 110 s, then 35 s of silence until the read times out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Be the watch's clock as well."""
        self.now = 100 * SECOND
        clock = SimpleNamespace(time_ns=lambda: self.now)
        monkeypatch.setattr("lagbench.programs.recorder.object_watch.time", clock)

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
