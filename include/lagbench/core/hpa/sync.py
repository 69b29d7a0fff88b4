"""One HPA sync (Kubernetes 1.34) as a function over explicit state.

A sync has three parts, so that effects stay outside: ``wants_metrics`` says whether metrics are
read at all, ``decide`` turns their proposals into a replica count, and ``record_change`` notes a
change that was carried out. Instants are integer nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lagbench.core.hpa.behavior import ScaleEvent
from lagbench.core.hpa.metrics import MetricFailure, Proposal
from lagbench.core.hpa.spec import HpaSpec
from lagbench.core.hpa.stabilization import Sync, normalise
from lagbench.core.hpa.state import (
    Condition,
    HpaHistory,
    HpaSettings,
    Recommendation,
    put_in_place_of_outdated,
)
from lagbench.core.kubernetes.instants import NS_PER_SECOND


@dataclass(frozen=True, slots=True)
class MetricOutcome:
    """A metric's name as events show it, with its proposal or failure."""

    name: str
    result: Proposal | MetricFailure


@dataclass(frozen=True, slots=True)
class HpaDecision:
    """The outcome of one sync: replicas to set, why, and the state for the next sync."""

    replicas: int
    history: HpaHistory
    conditions: tuple[Condition, ...]
    proposal: int | None = None  # None: no metric was consulted, or none was usable
    reason: str = ""
    error: str = ""  # what failed, also when the others sufficed for scaling up


def start_history(spec_replicas: int, now_ns: int) -> HpaHistory:
    """Return the history at an HPA's first sync: the current size counts as recommended."""
    return HpaHistory((Recommendation(spec_replicas, now_ns),))


def wants_metrics(spec: HpaSpec, spec_replicas: int) -> bool:
    """Return whether this sync reads metrics: not at zero replicas, nor outside min and max."""
    return spec_replicas != 0 and spec.min_replicas <= spec_replicas <= spec.max_replicas


def decide(
    spec: HpaSpec,
    history: HpaHistory,
    outcomes: Sequence[MetricOutcome],
    *,
    spec_replicas: int,
    now_ns: int,
    settings: HpaSettings,
) -> HpaDecision:
    """Return what this sync does; ``outcomes`` is empty when ``wants_metrics`` is False."""
    if spec_replicas == 0 and spec.min_replicas != 0:
        message = "scaling is disabled since the replica count of the target is zero"
        disabled = Condition("ScalingActive", "False", "ScalingDisabled", message)
        return HpaDecision(0, history, (disabled,))
    if spec_replicas > spec.max_replicas:
        reason = "Current number of replicas above Spec.MaxReplicas"
        return HpaDecision(spec.max_replicas, history, (), reason=reason)
    if spec_replicas < spec.min_replicas:
        reason = "Current number of replicas below Spec.MinReplicas"
        return HpaDecision(spec.min_replicas, history, (), reason=reason)
    wish, metric_name, active, error = _highest(outcomes, spec_replicas)
    if wish is None:
        return HpaDecision(spec_replicas, history, (active,), error=error)
    normal = normalise(Sync(spec, history, spec_replicas, now_ns, settings), wish)
    return HpaDecision(
        replicas=normal.replicas,
        history=normal.history,
        conditions=(active, *normal.conditions),
        proposal=wish,
        reason=_rescale_reason(wish, spec_replicas, metric_name),
        error=error,
    )


def _rescale_reason(wish: int, spec_replicas: int, metric_name: str) -> str:
    if wish > spec_replicas:
        return f"{metric_name} above target"
    return "All metrics below target" if wish < spec_replicas else ""


def _highest(
    outcomes: Sequence[MetricOutcome], spec_replicas: int
) -> tuple[int | None, str, Condition, str]:
    """Return the highest proposal (None: unusable), its metric, ScalingActive, and the error."""
    failures = [item.result for item in outcomes if isinstance(item.result, MetricFailure)]
    best, name = 0, ""
    for item in outcomes:
        if isinstance(item.result, Proposal) and (best == 0 or item.result.replicas > best):
            best, name = item.result.replicas, item.name
    error = ""
    if failures:
        error = (
            f"invalid metrics ({len(failures)} invalid out of {len(outcomes)}), "
            f"first error is: {failures[0].message}"
        )
    if len(failures) == len(outcomes) or (failures and best < spec_replicas):
        message = f"the HPA was unable to compute the replica count: {failures[0].message}"
        return None, "", Condition("ScalingActive", "False", failures[0].reason, message), error
    message = f"the HPA was able to successfully calculate a replica count from {name}"
    return best, name, Condition("ScalingActive", "True", "ValidMetricFound", message), error


def record_change(
    spec: HpaSpec, history: HpaHistory, before: int, after: int, now_ns: int
) -> HpaHistory:
    """Return the history after the target went from ``before`` to ``after`` replicas.

    Changes are remembered only while the HPA has ``behavior``.
    """
    if spec.behavior is None or before == after:
        return history
    rules = spec.behavior.scale_up if after > before else spec.behavior.scale_down
    events = history.events.ups if after > before else history.events.downs
    cut_ns = now_ns - rules.longest_period_seconds * NS_PER_SECOND
    outdated = [index for index, event in enumerate(events) if event.at_ns < cut_ns]
    event = ScaleEvent(abs(after - before), now_ns)
    changed = put_in_place_of_outdated(events, event, outdated)
    side = {"ups": changed} if after > before else {"downs": changed}
    return replace(history, events=replace(history.events, **side))
