"""Collect scaling steps from the autoscaler's records and the recorder's watch.

The embedded autoscaler (and the bench's own on a cluster) reports each step that it makes, with its
exact instant. On a cluster the recorder's watch shows the time of a step and the name of its
writer. A step that both report counts once, as the autoscaler's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from lagbench.core.measures.evidence.lag_readings import GAP_SECONDS
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import Scaled
from lagbench.core.telemetry.records_of_recorder import (
    HpaSample,
    KubeEvent,
    ReplicaSample,
    ReplicasChanged,
)

By = Literal["keda", "hpa", "user", "unknown"]

# The HPA writes its event right after the scale; the event's stamp is a whole second.
_EVENT_REACH_SECONDS = 2.0

# The watch reports the autoscaler's step within milliseconds, on a busy machine later.
_WATCH_REACH_SECONDS = 5.0
_NEW_SIZE = re.compile(r"New size: (\d+)")


class ReplicaChange(MeasureModel):
    """One change of the desired replicas."""

    at: int
    replicas_before: int
    replicas_after: int
    by: By
    reason: str
    precision_seconds: float
    is_reversal: bool = False
    is_flip: bool = False
    is_self_made: bool | None = None  # None: no flip, or the instants of the load are not known

    @property
    def kind(self) -> Literal["scale_up", "scale_down"]:
        """Return what an episode that it caused is called."""
        return "scale_up" if self.replicas_after > self.replicas_before else "scale_down"


@dataclass(frozen=True, slots=True)
class ReplicaStep:
    """One step of the desired replicas; an inexact step lies before ``at``."""

    at: int
    replicas_before: int
    replicas_after: int
    by: By = "unknown"
    reason: str = ""
    is_exact: bool = False

    def change(self, since_at: int) -> ReplicaChange:
        """Return the step as a change that came after ``since_at``."""
        given = asdict(self)
        unsure_seconds = max(self.at - since_at, 0) / NANOSECONDS
        precision = 0.0 if given.pop("is_exact") else unsure_seconds
        return ReplicaChange(**given, precision_seconds=precision)


def replica_steps(records: Sequence[TelemetryRecord]) -> list[ReplicaStep]:
    """Return every reported step once, by instant."""
    scaled = [record for record in records if isinstance(record, Scaled)]
    watched = [record for record in records if isinstance(record, ReplicasChanged)]
    own = {record.name for record in records if isinstance(record, HpaSample)}
    rescales = [
        record
        for record in records
        if isinstance(record, KubeEvent)
        and record.reason == "SuccessfulRescale"
        and (not own or record.object_name in own)  # of another workload: an older recorder's
    ]
    steps = [
        ReplicaStep(r.at, r.replicas_before, r.replicas_after, r.by, r.reason, is_exact=True)
        for r in scaled
    ]
    steps += [_watched(record, rescales) for record in _not_among(watched, scaled)]
    return sorted(steps, key=lambda step: step.at)


def _not_among(
    watched: Sequence[ReplicasChanged], scaled: Sequence[Scaled]
) -> list[ReplicasChanged]:
    """Return the steps that only the watch shows: each autoscaler step accounts for one."""
    left = sorted(scaled, key=lambda step: step.at)
    alone: list[ReplicasChanged] = []
    for seen in sorted(watched, key=lambda step: step.at):
        reported = next((step for step in left if _is_reported_by(seen, step)), None)
        if reported is None:
            alone.append(seen)
        else:
            left.remove(reported)
    return alone


def _is_reported_by(seen: ReplicasChanged, reported: Scaled) -> bool:
    late_seconds = (seen.at - reported.at) / NANOSECONDS
    is_same = (seen.replicas_before, seen.replicas_after) == (
        reported.replicas_before,
        reported.replicas_after,
    )
    return is_same and -1.0 <= late_seconds <= _WATCH_REACH_SECONDS


def _watched(step: ReplicasChanged, rescales: Sequence[KubeEvent]) -> ReplicaStep:
    rescale, by = _rescale(step, rescales), _writer(step.manager)
    if by == "unknown" and rescale is not None:
        by = "hpa"  # an event near a step of somebody else does not make it the HPA's
    reason = f"written by {step.manager}" if by == "user" else ""
    if by == "hpa" and rescale is not None:
        reason = rescale.message
    return ReplicaStep(step.at, step.replicas_before, step.replicas_after, by, reason)


def _rescale(step: ReplicasChanged, rescales: Sequence[KubeEvent]) -> KubeEvent | None:
    """Return the HPA's event for this step."""
    reach = round(_EVENT_REACH_SECONDS * NANOSECONDS)
    for event in sorted(rescales, key=lambda event: event.at):
        size = _NEW_SIZE.match(event.message)
        if size and int(size[1]) == step.replicas_after and abs(event.at - step.at) <= reach:
            return event
    return None


def _writer(manager: str) -> By:
    """Return the writer behind a field manager's name: a controller uses its program's name."""
    if not manager:
        return "unknown"
    if manager.startswith("kube-controller-manager"):
        return "hpa"
    return "keda" if manager.startswith("keda") else "user"


# A sample is read up to a second after its stamp, and the watch reports a step slightly later.
_STAMP_NS = NANOSECONDS


@dataclass(slots=True)
class ReplicaTimeline:
    """Walk over ``steps`` (by instant); each step counts once."""

    steps: Sequence[ReplicaStep]
    _next: int = field(default=0, init=False)

    def between(self, before: ReplicaSample, after: ReplicaSample) -> list[ReplicaChange]:
        """Return the changes from one sample to the next one.

        Steps stamped after the second sample are used only if the steps before it do not lead to
        it, because they may belong to the next two samples.
        """
        since_at = before.at - _STAMP_NS
        arrived = self._leading(self._walk(before.spec, since_at, after.at), after.spec, -1)
        if not arrived and before.spec != after.spec:
            late = self._walk(before.spec, since_at, after.at + _STAMP_NS)
            arrived = self._leading(late, after.spec, 0)
        if not arrived and after.at - before.at > GAP_SECONDS * NANOSECONDS:
            arrived = self._walk(before.spec, before.at + 1, after.at - _STAMP_NS)
        changes = self._take(arrived, before.at)
        spec = changes[-1].replicas_after if changes else before.spec
        if spec != after.spec:
            unreported = ReplicaStep(after.at, spec, after.spec)
            changes.append(unreported.change(before.at))
        return changes

    def beyond(self, last: ReplicaSample, until_at: int) -> list[ReplicaChange]:
        """Return the changes after the last sample."""
        return self._take(self._walk(last.spec, last.at + 1, until_at), last.at)

    def _walk(self, spec: int, since_at: int, until_at: int) -> list[int]:
        """Return the indexes of the steps that form a chain from ``spec``."""
        places: list[int] = []
        for place in range(self._next, len(self.steps)):
            step = self.steps[place]
            if since_at <= step.at <= until_at and step.replicas_before == spec:
                places.append(place)
                spec = step.replicas_after
        return places

    def _leading(self, places: list[int], spec: int, which: int) -> list[int]:
        """Return the steps up to the first (0) or last (-1) one that leads to ``spec``."""
        counts = enumerate(places, start=1)
        ends = [count for count, place in counts if self.steps[place].replicas_after == spec]
        return places[: ends[which]] if ends else []

    def _take(self, places: Sequence[int], since_at: int) -> list[ReplicaChange]:
        if places:
            self._next = places[-1] + 1
        return [self.steps[place].change(since_at) for place in places]
