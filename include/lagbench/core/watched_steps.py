"""Replica changes as the recorder saw them: its watch says when, the writer's name who.

The sample before still showed the old number, so a step lies between that sample and the instant at
which the watch showed it. Without a fitting step of the watch the sample after it is the bound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lagbench.core.measures import NANOSECONDS, ReplicaChange
from lagbench.core.telemetry import (
    KubeEvent,
    ReplicaSample,
    ReplicasChanged,
    Scaled,
    TelemetryRecord,
)

By = Literal["keda", "hpa", "user", "unknown"]

# The HPA writes its event right after the scale; the event's stamp is a whole second.
_EVENT_REACH_SECONDS = 2.0
_NEW_SIZE = re.compile(r"New size: (\d+)")


@dataclass(frozen=True, slots=True)
class WatchedSteps:
    """What the recorder saw of the Deployment, and the HPA's events on it; by instant."""

    steps: Sequence[ReplicasChanged]
    rescales: Sequence[KubeEvent]

    @classmethod
    def of(cls, records: Sequence[TelemetryRecord]) -> WatchedSteps:
        """Pick them out of ``records``."""
        by_instant = sorted(records, key=lambda record: record.at)
        return cls(
            [record for record in by_instant if isinstance(record, ReplicasChanged)],
            [
                record
                for record in by_instant
                if isinstance(record, KubeEvent) and record.reason == "SuccessfulRescale"
            ],
        )

    def between(self, before: ReplicaSample, after: ReplicaSample) -> list[ReplicaChange]:
        """Return the steps from one sample to the next; one at the sample if none fit.

        A sample is read up to a second after its stamp: the watch may tell of a step after that.
        """
        until_at = after.at + NANOSECONDS
        near = [step for step in self.steps if before.at <= step.at <= until_at]
        for start in range(len(near)):
            for end in range(start + 1, len(near) + 1):
                chain = near[start:end]
                if leads(chain, before.spec, after.spec):
                    return [self._change(step, before) for step in chain]
        return [
            ReplicaChange(
                at=after.at,
                replicas_before=before.spec,
                replicas_after=after.spec,
                by="unknown",
                reason="",
                precision_seconds=(after.at - before.at) / NANOSECONDS,
                is_reversal=False,
                is_flip=False,
            )
        ]

    def _change(self, step: ReplicasChanged, before: ReplicaSample) -> ReplicaChange:
        rescale = self._rescale(step)
        return ReplicaChange(
            at=step.at,
            replicas_before=step.replicas_before,
            replicas_after=step.replicas_after,
            by="hpa" if rescale is not None else _writer(step.manager),
            reason="" if rescale is None else rescale.message,
            precision_seconds=(step.at - before.at) / NANOSECONDS,
            is_reversal=False,
            is_flip=False,
        )

    def _rescale(self, step: ReplicasChanged) -> KubeEvent | None:
        """Return the HPA's event on this step."""
        reach = round(_EVENT_REACH_SECONDS * NANOSECONDS)
        for event in self.rescales:
            size = _NEW_SIZE.match(event.message)
            if size and int(size[1]) == step.replicas_after and abs(event.at - step.at) <= reach:
                return event
        return None


def leads(chain: Sequence[Scaled] | Sequence[ReplicasChanged], first: int, last: int) -> bool:
    """Say whether the steps, one after the other, lead from ``first`` to ``last`` replicas."""
    places = [first, *(step.replicas_after for step in chain)]
    befores = [step.replicas_before for step in chain]
    return befores == places[:-1] and places[-1] == last


def _writer(manager: str) -> By:
    """Return who scales under a field manager's name: a controller's is that of its program."""
    if not manager:
        return "unknown"
    if manager.startswith("kube-controller-manager"):
        return "hpa"
    return "keda" if manager.startswith("keda") else "user"
