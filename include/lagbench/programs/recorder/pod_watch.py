"""Read a source on a fixed grid of instants, or follow it; and follow the consumer pods so.

A slow or failed read costs its own ticks and no others: every source has its own thread, and the
grid does not move. Ticks that passed during a slow read are reported as gaps. The grid is the
monotonic clock's, so that readings continue when the wall clock, which stamps them, is set. A
source that says that it is changing is also read between the ticks, five times a second.
"""

from __future__ import annotations

import logging
import threading
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

Read = Callable[[int], Iterable[Record]]
"""Takes the instant (unix ns) and returns what was seen."""
CHANGING_NS = 200_000_000
"""The time between two readings of a source that is changing: five a second."""


class SourceThread(threading.Thread):
    """Reads a source of records until it is stopped."""

    def __init__(self, name: str, send: Callable[[Record], None], source: str) -> None:
        """Send records of ``source``."""
        super().__init__(name=name, daemon=True)
        self._send, self._source = send, source
        self._stopping = threading.Event()
        self.has_read = False

    def stop(self) -> None:
        """End after the reading under way."""
        self._stopping.set()

    def _report(self, kind: type[Record], at: int, **fields: Any) -> None:
        self._send(kind(at=at, source=self._source, **fields))


class GridSampler(SourceThread):
    """Sends what ``read`` returns, once per tick."""

    def __init__(
        self,
        what: What,
        read: Read,
        *,
        send: Callable[[Record], None],
        source: str,
        origin_at: int,
        interval_ns: int,
        is_changing: Callable[[], bool] = lambda: False,
    ) -> None:
        """Tick at ``origin_at`` (unix ns) plus whole multiples of ``interval_ns``.

        :param is_changing: whether the last reading is a reason to read again before the next tick.
        """
        super().__init__(f"sample-{what}", send, source)
        self._what, self._read, self._is_changing = what, read, is_changing
        self._origin_at, self._interval_ns = origin_at, interval_ns

    def run(self) -> None:
        """Sample until stopped."""
        until_tick_ns = (self._origin_at - time.time_ns()) % self._interval_ns
        due_ns = tick_ns = time.monotonic_ns() + until_tick_ns
        while not self._stopping.wait(max(due_ns - time.monotonic_ns(), 0) / 1e9):
            began_ns = time.monotonic_ns()
            self.sample(time.time_ns())
            ended_ns, ended_at = time.monotonic_ns(), time.time_ns()
            if due_ns == tick_ns:
                tick_ns += self._interval_ns
            while tick_ns < ended_ns:
                took_seconds = (ended_ns - began_ns) / 1e9
                reason = f"the previous reading took {took_seconds:.1f} s"
                self._gap(ended_at - (ended_ns - tick_ns), reason)
                tick_ns += self._interval_ns
            due_ns = self._due_ns(tick_ns, ended_ns)

    def sample(self, at: int) -> None:
        """Read once; a failure is sent as a gap."""
        try:
            for record in self._read(at):
                self._send(record)
        except Exception as error:
            log.warning("%s was not read: %s", self._what, error)
            self._gap(at, reason_of(error))
        self.has_read = True

    def _due_ns(self, tick_ns: int, now_ns: int) -> int:
        """Return the next reading: the tick, or one of the whole steps that lead up to it."""
        if not self._is_changing():
            return tick_ns
        return tick_ns - max(tick_ns - now_ns - 1, 0) // CHANGING_NS * CHANGING_NS

    def _gap(self, at: int, reason: str) -> None:
        self._report(ReadGap, at, what=self._what, reason=reason)


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
