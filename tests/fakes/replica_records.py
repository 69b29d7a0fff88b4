"""What recorder and autoscaler tell of wanted replicas, from a few numbers: seconds in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from lagbench.core.telemetry.records_of_programs import Scaled
from lagbench.core.telemetry.records_of_recorder import ReplicaSample, ReplicasChanged

SECOND = 1_000_000_000


def sample(second: float, spec: int) -> ReplicaSample:
    """Return the recorder's sample, with all that is wanted ready."""
    at = round(second * SECOND)
    return ReplicaSample(at=at, source="recorder", spec=spec, current=spec, ready=spec)


def samples(specs: Iterable[int], first_second: int = 0) -> list[ReplicaSample]:
    """Return one sample a second."""
    return [sample(second, spec) for second, spec in enumerate(specs, first_second)]


def scaled(
    second: float, before: int, after: int, by: Literal["keda", "hpa", "user"] = "hpa"
) -> Scaled:
    """Return a step that the autoscaler reports."""
    return Scaled(
        at=round(second * SECOND),
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
        at=round(second * SECOND),
        source="recorder",
        target="consumer",
        replicas_before=before,
        replicas_after=after,
        manager=manager,
    )
