"""What happened to a group, in seconds: replicas, events, pods, samples of the lag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.lag_readings import LagSeries, lag_series
from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.telemetry.records_of_programs import Scaled
from lagbench.core.telemetry.records_of_recorder import ReplicaSample, ReplicasChanged

SECOND = 1_000_000_000


def ns(second: float) -> int:
    """Return seconds as nanoseconds."""
    return round(second * SECOND)


def change(second: float, before: int, after: int, **more: Any) -> ReplicaChange:
    """Return an exact scale step by the HPA."""
    given: dict[str, Any] = {"by": "hpa", "reason": "", "precision_seconds": 0}
    steps = {"replicas_before": before, "replicas_after": after}
    marks = {"is_reversal": False, "is_flip": False}
    return ReplicaChange(at=ns(second), **(given | steps | marks | more))


def event(second: float, pod: str, kind: Any, owned: set[int] | None = None) -> GroupEvent:
    """Return an event of the group."""
    return GroupEvent(ns(second), pod, kind, None if owned is None else frozenset(owned))


def timeline(
    pod: str, created: float, ready: float | None = None, gone: float | None = None
) -> PodTimeline:
    """Return when a pod was there."""
    of = [None if second is None else ns(second) for second in (ready, gone)]
    return PodTimeline(pod, ns(created), *of, 0.001, 0.001)


def lag_by_second(
    lags: Sequence[float | None], *, at: Sequence[float] | None = None, end: int = 10_000_000
) -> LagSeries:
    """Return a sample a second (or at the given ones); None is a commit that is not known."""
    return lag_series(
        at=[ns(second) for second in at or range(len(lags))],
        partition=[7] * len(lags),
        end_offset=[end] * len(lags),
        committed=[None if lag is None else end - int(lag) for lag in lags],
    )


def sample(second: float, spec: int) -> ReplicaSample:
    """Return the recorder's sample, with all that is wanted ready."""
    return ReplicaSample(at=ns(second), source="recorder", spec=spec, current=spec, ready=spec)


def samples(specs: Iterable[int], first_second: int = 0) -> list[ReplicaSample]:
    """Return one sample a second."""
    return [sample(second, spec) for second, spec in enumerate(specs, first_second)]


def scaled(
    second: float, before: int, after: int, by: Literal["keda", "hpa", "user"] = "hpa"
) -> Scaled:
    """Return a step that the autoscaler reports."""
    return Scaled(
        at=ns(second),
        source="autoscaler",
        target="consumer",
        replicas_before=before,
        replicas_after=after,
        by=by,
        reason="because",
    )


def watched_step(second: float, before: int, after: int, manager: str = "") -> ReplicasChanged:
    """Return a step that the recorder's watch showed."""
    return ReplicasChanged(
        at=ns(second),
        source="recorder",
        target="consumer",
        replicas_before=before,
        replicas_after=after,
        manager=manager,
    )
