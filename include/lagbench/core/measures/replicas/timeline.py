"""Reconstruct desired replicas between samples from the reported scaling steps.

Each sample shows the desired replicas at its instant. Steps between two samples count if they form
a chain from the first sample's number to the second's. This also holds if both samples show the
same number: replicas that went up and came back between them did change. If the steps do not lead
to the second sample, that sample is the bound of an unreported change. Steps within a gap between
samples are then counted as far as their chain goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lagbench.core.measures.evidence.gaps import GAP_SECONDS
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replicas.steps import ReplicaChange, ReplicaStep
from lagbench.core.telemetry.recorder import ReplicaSample

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
            unreported = ReplicaStep(after.at, spec, after.spec, "unknown", "", is_exact=False)
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
