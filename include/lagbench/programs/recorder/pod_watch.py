"""Follow the consumer pods: a record whenever something about one changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from lagbench.adapters.kube.client.object_events import Event
from lagbench.core.telemetry.record import Record
from lagbench.core.telemetry.recorder import PodSeen, PodsListed
from lagbench.programs.recorder.object_watch import ObjectWatch, present
from lagbench.programs.recorder.pod_record import pod_seen


class PodWatch(ObjectWatch):
    """Sends a PodSeen for every change until stopped, and at first which pods are there.

    Which of them an earlier recorder knew of, the run's telemetry says, not this process.
    """

    def __init__(
        self, events: Callable[[], Iterator[Event]], send: Callable[[Record], None], source: str
    ) -> None:
        """Take one list and its changes from each call of ``events``."""
        super().__init__("pods", events, send, source)
        self._pods: dict[str, Mapping[str, Any]] = {}  # by uid
        self._reported: dict[str, PodSeen] = {}
        self._has_listed = False

    def take(self, kind: str, found: Mapping[str, Any], *, at: int) -> None:
        """Take one event of the watch."""
        if kind == "LISTED":
            self._take_list(found, at=at)
        elif kind == "DELETED":
            self._pods.pop(found["metadata"]["uid"], None)
            self._report_pod(found, at=at, gone_at=at)
        for pod in present(kind, found):
            self._pods[pod["metadata"]["uid"]] = pod
            self._report_pod(pod, at=at, gone_at=None)

    def _take_list(self, found: Mapping[str, Any], *, at: int) -> None:
        """Report pods deleted in a gap: since the previous list, or while no recorder ran."""
        there = {
            pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in found.get("items") or []
        }
        if not self._has_listed:
            self._has_listed = True
            self._send(PodsListed(at=at, source=self._source, pods=sorted(there.values())))
        for uid in self._pods.keys() - there.keys():
            self._report_pod(self._pods.pop(uid), at=at, gone_at=at)

    def _report_pod(self, pod: Mapping[str, Any], *, at: int, gone_at: int | None) -> None:
        seen: PodSeen = pod_seen(pod, at=at, source=self._source, gone_at=gone_at)
        uid, matters = pod["metadata"]["uid"], msgspec.structs.replace(seen, at=0)
        if self._reported.get(uid) == matters:
            return
        if gone_at is None:
            self._reported[uid] = matters
        else:
            self._reported.pop(uid, None)
        self._send(seen)
