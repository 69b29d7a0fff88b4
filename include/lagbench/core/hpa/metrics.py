"""From a metric's reading to a proposal of replicas, for each kind of metric and target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite, nan

from lagbench.core.hpa.spec import ExternalMetric

MAX_REPLICAS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Proposal:
    """The replicas that one metric proposes, and the usage that its status shows.

    ``usage_milli`` is per pod for average targets and the whole for ``Value``; None: not defined.
    """

    replicas: int
    usage_milli: int | None
    usage_percent: int | None = None


@dataclass(frozen=True, slots=True)
class MetricFailure:
    """A metric that could not be read; it blocks scaling down, and scaling up when it is alone."""

    reason: str  # FailedGetExternalMetric, FailedGetResourceMetric, ...
    message: str


def is_within_tolerance(ratio: float, tolerance: float) -> bool:
    """Return whether a usage ratio is so near to one that nothing should change."""
    return 1.0 - tolerance <= ratio <= 1.0 + tolerance


def propose_external(
    metric: ExternalMetric,
    milli: int,
    *,
    spec_replicas: int,
    status_replicas: int,
    count_ready_pods: Callable[[], int],
    tolerance: float,
) -> Proposal:
    """Return the proposal for an External metric; pods are counted for a Value target only."""
    if metric.target_type == "AverageValue":
        return propose_external_average(
            [milli], metric.target_milli, status_replicas=status_replicas, tolerance=tolerance
        )
    return propose_external_value(
        [milli],
        metric.target_milli,
        spec_replicas=spec_replicas,
        ready_pods=count_ready_pods(),
        tolerance=tolerance,
    )


def propose_external_average(
    values_milli: Sequence[int], target_milli: int, *, status_replicas: int, tolerance: float
) -> Proposal:
    """Return the proposal for an External metric with an AverageValue target.

    Inside the tolerance it is status.replicas, not spec.replicas.
    """
    usage = sum(values_milli)
    ratio = _ratio(usage, float(target_milli) * status_replicas)
    if is_within_tolerance(ratio, tolerance):
        replicas = status_replicas
    else:
        replicas = _whole_replicas(usage / target_milli)
    per_pod = ceil(usage / status_replicas) if status_replicas else None
    return Proposal(replicas, per_pod)


def propose_external_value(
    values_milli: Sequence[int],
    target_milli: int,
    *,
    spec_replicas: int,
    ready_pods: int,
    tolerance: float,
) -> Proposal:
    """Return the proposal for an External metric with a Value target."""
    usage = sum(values_milli)
    ratio = usage / target_milli
    if spec_replicas == 0:
        return Proposal(_whole_replicas(ratio), usage)
    if is_within_tolerance(ratio, tolerance):
        return Proposal(spec_replicas, usage)
    return Proposal(_whole_replicas(ratio * ready_pods), usage)


def _ratio(usage: int, capacity: float) -> float:
    if capacity == 0:
        return inf if usage else nan
    return usage / capacity


def _whole_replicas(wish: float) -> int:
    return min(ceil(wish), MAX_REPLICAS) if isfinite(wish) else MAX_REPLICAS
