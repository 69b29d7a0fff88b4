"""Define the state of the HPA's control loop: settings, history, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

from lagbench.core.hpa.hpa_metrics import MetricFailure, Proposal
from lagbench.core.hpa.hpa_object import (
    HpaBehavior,
    HpaSpec,
    ScaleEvent,
    ScaleEvents,
    scale_down_limit,
    scale_up_limit,
)
from lagbench.core.kubernetes_values import HPA_TOLERANCE, NS_PER_SECOND

_Item = TypeVar("_Item")

SCALED_TO_ZERO = "ScaledToZero"


@dataclass(frozen=True, slots=True)
class HpaSettings:
    """Flags of the controller; the defaults are those of kube-controller-manager."""

    tolerance: float = HPA_TOLERANCE
    downscale_stabilization_seconds: int = 300


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A proposal before any limit, with the instant of its sync."""

    replicas: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class HpaHistory:
    """The controller's memory of one HPA object; a new object starts with an empty one."""

    recommendations: tuple[Recommendation, ...] = ()
    events: ScaleEvents = field(default_factory=ScaleEvents)


@dataclass(frozen=True, slots=True)
class Condition:
    """A status condition of an HPA or a ScaledObject."""

    type: str
    status: str  # "True", "False" or "Unknown"
    reason: str = ""
    message: str = ""


def put_in_place_of_outdated(
    items: tuple[_Item, ...], new: _Item, outdated: Sequence[int]
) -> tuple[_Item, ...]:
    """Replace the last outdated entry, or append when none is outdated."""
    if not outdated:
        return (*items, new)
    return (*items[: outdated[-1]], new, *items[outdated[-1] + 1 :])


_DETAIL = {
    "ReadyForNewScale": "recommended size matches current size",
    "ScaleDownStabilized": "recent recommendations were higher than current one, "
    "applying the highest recent recommendation",
    "ScaleUpStabilized": "recent recommendations were lower than current one, "
    "applying the lowest recent recommendation",
    "DesiredWithinRange": "the desired count is within the acceptable range",
    "TooFewReplicas": "the desired replica count is less than the minimum replica count",
    "TooManyReplicas": "the desired replica count is more than the maximum replica count",
    "ScaleUpLimit": "the desired replica count is increasing faster than the maximum scale rate",
    "ScaleDownLimit": "the desired replica count is decreasing faster than the maximum scale rate",
}


@dataclass(frozen=True, slots=True)
class Sync:
    """The situation at one sync."""

    spec: HpaSpec
    history: HpaHistory
    spec_replicas: int
    now_ns: int
    settings: HpaSettings


@dataclass(frozen=True, slots=True)
class Normalised:
    """Replicas after all limits, the history with this sync's proposal, and why."""

    replicas: int
    history: HpaHistory
    conditions: tuple[Condition, ...]


def normalise(sync: Sync, wish: int) -> Normalised:
    """Return what becomes of a proposal; an HPA with ``behavior`` follows another algorithm."""
    if sync.spec.behavior is None:
        return _normalise_plainly(sync, wish)
    return _normalise_by_rules(sync, sync.spec.behavior, wish)


def _conditions(
    wish: int, stabilised: int, replicas: int, *, if_held: str, limit: str
) -> tuple[Condition, ...]:
    able = if_held if stabilised != wish else "ReadyForNewScale"
    return _said(able, "True" if replicas != stabilised else "False", limit)


@cache  # a dozen combinations, and a simulation asks 100,000 times for them
def _said(able: str, limited: str, limit: str) -> tuple[Condition, ...]:
    return (
        Condition("AbleToScale", "True", able, _DETAIL[able]),
        Condition("ScalingLimited", limited, limit, _DETAIL[limit]),
    )


def _normalise_plainly(sync: Sync, wish: int) -> Normalised:
    """Apply the algorithm of an HPA without ``behavior``: hold the peak, at most double."""
    cut_ns = sync.now_ns - sync.settings.downscale_stabilization_seconds * NS_PER_SECOND
    past = sync.history.recommendations
    stabilised = max([wish, *[r.replicas for r in past if r.at_ns >= cut_ns]])
    remembered = _remember(sync, wish, cut_ns)
    step_limit = max(2 * sync.spec_replicas, 4)
    ceiling = min(sync.spec.max_replicas, step_limit)
    if stabilised < sync.spec.min_replicas:
        replicas, why = sync.spec.min_replicas, "TooFewReplicas"
    elif stabilised > ceiling:
        replicas = ceiling
        why = "ScaleUpLimit" if sync.spec.max_replicas > step_limit else "TooManyReplicas"
    else:
        replicas, why = stabilised, "DesiredWithinRange"
    conditions = _conditions(wish, stabilised, replicas, if_held="ScaleDownStabilized", limit=why)
    return Normalised(replicas, remembered, conditions)


def _remember(sync: Sync, wish: int, cut_ns: int) -> HpaHistory:
    """Return the history with this sync's proposal in place of the last entry before the cut."""
    past = sync.history.recommendations
    outdated = [index for index, item in enumerate(past) if item.at_ns < cut_ns]
    new = put_in_place_of_outdated(past, Recommendation(wish, sync.now_ns), outdated)
    return HpaHistory(new, sync.history.events)


def _normalise_by_rules(sync: Sync, behavior: HpaBehavior, wish: int) -> Normalised:
    """Apply ``behavior``: both stabilization windows, then the rate policies."""
    up_window = behavior.scale_up.window_seconds or 0
    down_window = behavior.scale_down.window_seconds
    if down_window is None:
        down_window = sync.settings.downscale_stabilization_seconds
    up_cut_ns = sync.now_ns - up_window * NS_PER_SECOND
    down_cut_ns = sync.now_ns - down_window * NS_PER_SECOND
    past = sync.history.recommendations
    low = min([wish, *[r.replicas for r in past if r.at_ns > up_cut_ns]])
    high = max([wish, *[r.replicas for r in past if r.at_ns > down_cut_ns]])
    stabilised = min(max(sync.spec_replicas, low), high)
    remembered = _remember(sync, wish, min(up_cut_ns, down_cut_ns))
    replicas, why = _limit_by_rules(sync, behavior, stabilised)
    direction = "ScaleUpStabilized" if wish >= sync.spec_replicas else "ScaleDownStabilized"
    conditions = _conditions(wish, stabilised, replicas, if_held=direction, limit=why)
    return Normalised(replicas, remembered, conditions)


def _limit_by_rules(sync: Sync, behavior: HpaBehavior, stabilised: int) -> tuple[int, str]:
    spec, current, events = sync.spec, sync.spec_replicas, sync.history.events
    if stabilised > current:
        limit = max(current, scale_up_limit(behavior.scale_up, current, events, sync.now_ns))
        allowed = min(spec.max_replicas, limit)
        if stabilised > allowed:
            return allowed, "ScaleUpLimit" if spec.max_replicas > limit else "TooManyReplicas"
    elif stabilised < current:
        limit = min(current, scale_down_limit(behavior.scale_down, current, events, sync.now_ns))
        allowed = max(spec.min_replicas, limit)
        if stabilised < allowed:
            return allowed, "ScaleDownLimit" if spec.min_replicas < limit else "TooFewReplicas"
    return stabilised, "DesiredWithinRange"


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


def wants_metrics(spec: HpaSpec, spec_replicas: int, *, is_scaled_to_zero: bool = False) -> bool:
    """Return whether this sync reads metrics: not outside min and max, nor at zero replicas.

    :param is_scaled_to_zero: the gate HPAScaleToZero is on, and so is the condition ScaledToZero:
        the HPA itself went to zero, and comes back.
    """
    if spec_replicas == 0:
        return is_scaled_to_zero and (spec.min_replicas != 0 or spec.has_external)
    return spec.min_replicas <= spec_replicas <= spec.max_replicas


def scaled_to_zero(spec: HpaSpec, before: int, after: int) -> Condition:
    """Return the condition ScaledToZero after a change of replicas (gate HPAScaleToZero)."""
    if before > 0 and after == 0 and spec.min_replicas == 0 and spec.has_external:
        text = "the HPA controller scaled the workload to zero"
        return Condition(SCALED_TO_ZERO, "True", "ScaledToZero", text)
    text = "the HPA controller did not scale the workload to zero"
    return Condition(SCALED_TO_ZERO, "False", "NotScaledToZero", text)


def decide(
    spec: HpaSpec,
    history: HpaHistory,
    outcomes: Sequence[MetricOutcome],
    *,
    spec_replicas: int,
    now_ns: int,
    settings: HpaSettings,
    is_scaled_to_zero: bool = False,
) -> HpaDecision:
    """Return what this sync does; ``outcomes`` is empty when ``wants_metrics`` is False."""
    wants = wants_metrics(spec, spec_replicas, is_scaled_to_zero=is_scaled_to_zero)
    if spec_replicas == 0 and not wants:
        message = "scaling is disabled since the replica count of the target is zero"
        disabled = Condition("ScalingActive", "False", "ScalingDisabled", message)
        return HpaDecision(0, history, (disabled,))
    if spec_replicas > spec.max_replicas:
        reason = "Current number of replicas above Spec.MaxReplicas"
        return HpaDecision(spec.max_replicas, history, (), reason=reason)
    too_few = "Current number of replicas below Spec.MinReplicas"
    if 0 < spec_replicas < spec.min_replicas:
        return HpaDecision(spec.min_replicas, history, (), reason=too_few)
    wish, metric_name, active, error = _highest(outcomes, spec_replicas)
    if wish is None:
        return HpaDecision(spec_replicas, history, (active,), error=error)
    normal = normalise(Sync(spec, history, spec_replicas, now_ns, settings), wish)
    reason = _rescale_reason(wish, spec_replicas, metric_name)
    if spec_replicas == 0 and normal.replicas < spec.min_replicas:  # it was raised meanwhile
        normal, reason = replace(normal, replicas=spec.min_replicas), reason or too_few
    return HpaDecision(
        replicas=normal.replicas,
        history=normal.history,
        conditions=(active, *normal.conditions),
        proposal=wish,
        reason=reason,
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
