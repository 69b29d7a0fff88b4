"""Follow lists of objects, and the consumer pods so."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from lagbench.adapters.kube.kube_client import Event, reason_of
from lagbench.core.measures.evidence.pod_timeline import FINAL_PHASES
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import PodSeen, PodsListed, ReadGap, What
from lagbench.core.workload_state import ready_since
from lagbench.programs.recorder.grid_sampler import SourceThread

log = logging.getLogger(__name__)
_RETRY_SECONDS = 1.0
_GAP_EVERY_NS = 1_000_000_000


class ObjectWatch(SourceThread):
    """Takes one list and its changes after the other until stopped.

    A server ends a watch in order after half a minute. One that breaks instead may have been dead
    since its last event: a partition shows no sooner than the read times out, 35 s later.
    """

    def __init__(
        self,
        what: What,
        events: Callable[[], Iterator[Event]],
        send: Callable[[Record], None],
        source: str,
        *,
        is_sampled: bool = False,
    ) -> None:
        """Take one list and its changes from each call of ``events``.

        ``is_sampled``: a sampler reads the same objects and reports its own gaps, so a change that
        this watch missed is observed anyway, if later and without its author.
        """
        super().__init__(f"watch-{what}", send, source)
        self._what, self._events, self._is_sampled = what, events, is_sampled

    def run(self) -> None:
        """Follow; a watch that breaks is a gap, then a new list says what was missed."""
        while not self._stopping.is_set():
            seen_at = time.time_ns()
            try:
                for kind, found in self._events():
                    if kind == "ERROR":  # 410, its version is too old: the next list says all
                        log.info("watch ended: %s", found.get("message"))
                    self.take(kind, found, at=time.time_ns())
                    self.has_read = True
                    if self._stopping.is_set():
                        return
                    seen_at = time.time_ns()
            except Exception as error:
                log.warning("%s were not read: %s", self._what, error)
                self._send_gaps(seen_at, reason_of(error))
                self.has_read = True
                self._stopping.wait(_RETRY_SECONDS)

    def _send_gaps(self, seen_at: int, reason: str) -> None:
        """Send a gap now, and one a second back to ``seen_at``, the last sign of life."""
        now = time.time_ns()
        missed = () if self._is_sampled else range(seen_at, now, _GAP_EVERY_NS)
        for at in (*missed, now):
            self._report(ReadGap, at, what=self._what, reason=reason)

    @abstractmethod
    def take(self, kind: str, found: Mapping[str, Any], *, at: int) -> None:
        """Take one event of the watch."""


def present(kind: str, found: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the objects that an event shows as being there."""
    if kind == "LISTED":
        return list(found.get("items") or [])
    return [found] if kind in {"ADDED", "MODIFIED"} else []


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


# localkube writes exact instants here; a cluster has whole seconds (metav1.Time) only.
_EXACT = "lagbench.io/{}-at-ns"
_EXACT_PRECISION_NS = 1
_WHOLE_SECONDS_PRECISION_NS = 1_000_000_000
_NOT_STARTED = "ContainerStatusUnknown"


def pod_seen(pod: Mapping[str, Any], *, at: int, source: str, gone_at: int | None) -> PodSeen:
    """Return what ``pod`` (a v1 Pod as JSON) says; ``gone_at`` is when the object went away."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    notes = metadata.get("annotations") or {}
    container: Mapping[str, Any] = next(iter(status.get("containerStatuses") or []), {})
    states = {**(container.get("lastState") or {}), **(container.get("state") or {})}
    terminated = states.get("terminated") or {}
    begun = states.get("running") or terminated
    is_exact = _EXACT.format("created") in notes
    created_at = _instant(notes, "created", metadata.get("creationTimestamp"))
    return PodSeen(
        at=at,
        source=source,
        pod=metadata["name"],
        created_at=at if created_at is None else created_at,
        started_at=_instant(notes, "started", begun.get("startedAt")),
        ready_at=_instant(notes, "ready", ready_since(pod)),
        deleted_at=_instant(notes, "deleted", _deletion_asked(metadata)),
        gone_at=gone_at,
        exit_code=terminated.get("exitCode"),
        exit_reason=str(terminated.get("reason") or status.get("reason") or ""),
        precision_ns=_EXACT_PRECISION_NS if is_exact else _WHOLE_SECONDS_PRECISION_NS,
        phase=str(status.get("phase") or ""),
        # Beside exact instants a whole second says less than when the watch showed it.
        finished_at=None if is_exact else _instant(notes, "finished", _finished(status)),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        address=str(status.get("podIP") or ""),
        containers_ended=_containers_ended(container),
    )


def _containers_ended(container: Mapping[str, Any]) -> int | None:
    """Return how often the container has ended; None: its restarts are not reported."""
    restarts, state = container.get("restartCount"), container.get("state") or {}
    if restarts is None:
        return None
    ended = state.get("terminated")
    # A container that was removed before it was started again has not ended once more.
    is_new = state != container.get("lastState") and (ended or {}).get("reason") != _NOT_STARTED
    return int(restarts) + (ended is not None and is_new)


def _finished(status: Mapping[str, Any]) -> str | None:
    """Return when the last container ended; None while the pod may start one again."""
    if status.get("phase") not in FINAL_PHASES:
        return None
    states = [container.get("state") or {} for container in status.get("containerStatuses") or []]
    ends = [str((state.get("terminated") or {}).get("finishedAt") or "") for state in states]
    return max(ends) if ends and all(ends) else None


def _deletion_asked(metadata: Mapping[str, Any]) -> str | None:
    """Return when deletion was requested: deletionTimestamp lies a grace period after it."""
    text = metadata.get("deletionTimestamp")
    if not text:
        return None
    grace_seconds = int(metadata.get("deletionGracePeriodSeconds") or 0)
    asked = datetime.fromisoformat(text).timestamp() - grace_seconds
    return datetime.fromtimestamp(asked, UTC).isoformat()


def _instant(notes: Mapping[str, str], what: str, timestamp: str | None) -> int | None:
    exact = notes.get(_EXACT.format(what))
    if exact:
        return int(exact)
    if not timestamp:
        return None
    return round(datetime.fromisoformat(timestamp).timestamp()) * 1_000_000_000
