"""From a proposal to the replicas that one sync may set: stabilization, then rate limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lagbench.core.hpa.behavior import (
    HpaBehavior,
    scale_down_limit,
    scale_up_limit,
)
from lagbench.core.hpa.spec import HpaSpec
from lagbench.core.hpa.state import (
    Condition,
    HpaHistory,
    HpaSettings,
    Recommendation,
    put_in_place_of_outdated,
)
from lagbench.core.kubernetes.instants import NS_PER_SECOND

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
