"""Compute the timelines of the consumer pods, with each instant as exact as the records allow.

localkube stamps exactly. A cluster writes whole seconds, and the recorder's watch shows a change
after it was made. So an instant lies between the start of its whole second on the recorder's clock
and the first record that shows it, at most a second (plus the skew's bound) apart. The record's
instant is used if it lies inside the second, else the start of the second.

A pod's time ends when the pod's object is removed, which the watch reports. Two cases end it
earlier:

* The pod ends by itself, without a request to delete it: evicted or rejected by its node, or lost
  with it. Its object stays in a final phase, and costs nothing more. In older runs localkube also
  reported a final phase while it started a container again; such a pod is Running later.
* The pod ends while no recorder runs: the next recorder's first list lacks it. That list is the
  latest possible instant of its end, so its time is too long by at most the recorder's absence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lagbench.core.clocks import ONE_CLOCK, Clock, ClockSet
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.telemetry.recorder import PodSeen, PodsListed
from lagbench.core.telemetry.records import TelemetryRecord

FINAL_PHASES = frozenset({"Failed", "Succeeded"})
"""A pod in one of these phases starts no more containers."""


@dataclass(frozen=True, slots=True)
class PodTimeline:
    """A consumer pod's instants as Kubernetes reports them; a precision of None is not bounded.

    ``gone_at`` is the end of its time, whether or not its object stayed.
    """

    pod: str
    created_at: int
    ready_at: int | None
    gone_at: int | None
    created_precision_seconds: float | None
    ready_precision_seconds: float | None
    note: str = ""

    def seconds_between(self, from_at: int, until_at: int) -> float:
        """Return the seconds of its time inside [from_at, until_at]."""
        start = max(self.created_at, from_at)
        end = until_at if self.gone_at is None else min(self.gone_at, until_at)
        return max(0, end - start) / NANOSECONDS


def pod_timelines(
    records: Sequence[TelemetryRecord], clocks: ClockSet = ONE_CLOCK
) -> dict[str, PodTimeline]:
    """Return each pod's timeline from its records, by creation.

    Ready is the first time that it was Ready, because a pod that ends is no longer Ready.
    """
    seen_of: dict[str, list[PodSeen]] = {}
    lists: list[PodsListed] = []
    for record in sorted(records, key=lambda record: record.at):
        if isinstance(record, PodSeen):
            seen_of.setdefault(record.pod, []).append(record)
        elif isinstance(record, PodsListed):
            lists.append(record)
    timelines = [_timeline(pod, seen, lists, clocks) for pod, seen in seen_of.items()]
    return {
        timeline.pod: timeline
        for timeline in sorted(timelines, key=lambda timeline: (timeline.created_at, timeline.pod))
    }


def _timeline(
    pod: str, seen: Sequence[PodSeen], lists: Sequence[PodsListed], clocks: ClockSet
) -> PodTimeline:
    last = seen[-1]
    # The API server stamps the creation, the node's kubelet the readiness.
    created_at, created_precision = _first(
        seen, lambda record: record.created_at, clocks.of_api_server()
    )
    ready_at, ready_precision = _first(seen, lambda record: record.ready_at, clocks.of_pod(pod))
    is_exact = last.precision_ns < NANOSECONDS
    return PodTimeline(
        pod=pod,
        created_at=last.created_at if created_at is None else created_at,
        ready_at=ready_at,
        gone_at=_end(seen, lists, clocks.of_pod(pod)),
        created_precision_seconds=created_precision,
        ready_precision_seconds=ready_precision,
        note="" if is_exact else "as the watch showed it, inside the whole second of its stamp",
    )


def _first(
    seen: Sequence[PodSeen], of: Callable[[PodSeen], int | None], clock: Clock | None
) -> tuple[int | None, float | None]:
    """Return the first reported instant and its precision."""
    for record in seen:
        stamp = of(record)
        if stamp is not None:
            if record.precision_ns < NANOSECONDS:
                return stamp, record.precision_ns / NANOSECONDS
            return _bounded(stamp, record.at, clock)
    return None, None


def _end(seen: Sequence[PodSeen], lists: Sequence[PodsListed], clock: Clock | None) -> int | None:
    """Return when a pod's time ended; None: not before its last record."""
    ran = max((place for place, record in enumerate(seen) if record.phase == "Running"), default=0)
    ended = next((record for record in seen[ran:] if _has_ended_by_itself(record)), None)
    if ended is not None:
        if ended.finished_at is None:
            return ended.at
        return _bounded(ended.finished_at, ended.at, clock)[0]
    last = seen[-1]
    if last.gone_at is not None:
        return last.gone_at
    without = (found for found in lists if found.at > last.at and last.pod not in found.pods)
    return next((found.at for found in without), None)


def _has_ended_by_itself(record: PodSeen) -> bool:
    """Return whether it ended before its deletion; a deleted pod ends with its object."""
    if record.phase not in FINAL_PHASES:
        return False
    if record.deleted_at is None:
        return True
    return record.finished_at is not None and record.finished_at < record.deleted_at


def _bounded(stamp: int, seen_at: int, clock: Clock | None) -> tuple[int, float | None]:
    """Return where a stamp of a whole second, seen at ``seen_at``, lies on the recorder's clock."""
    if clock is None:  # not bounded: the stamp adds nothing to a watch that shows it at once
        return (seen_at if 0 <= seen_at - stamp <= NANOSECONDS else stamp), None
    earliest = stamp - clock.bound.high_ns
    latest = stamp + NANOSECONDS - clock.bound.low_ns
    if seen_at < earliest:  # shown before it was stamped: the clock has moved since it was bounded
        return seen_at, None
    if seen_at > latest:
        return earliest, (latest - earliest) / NANOSECONDS
    return seen_at, (seen_at - earliest) / NANOSECONDS
