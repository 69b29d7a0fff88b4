"""KEDA's scale loop: when a target is activated, deactivated, or lifted to its minimum.

Only moves between zero (or idle) and the minimum are KEDA's; from there on the HPA decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lagbench.core.hpa.hpa_sync import Condition
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
from lagbench.core.kubernetes_values import NS_PER_SECOND, floor_to_second_ns

READY = Condition(
    "Ready",
    "True",
    "ScaledObjectReady",
    "ScaledObject is defined correctly and is ready for scaling",
)

_PARTLY_WORKING = Condition(
    "Ready",
    "Unknown",
    "PartialTriggerError",
    "Some triggers defined in ScaledObject are not working correctly",
)

_NOT_WORKING = Condition(
    "Ready", "False", "TriggerError", "Triggers defined in ScaledObject are not working correctly"
)

_ACTIVE = Condition(
    "Active", "True", "ScalerActive", "Scaling is performed because triggers are active"
)

_FORCED = Condition(
    "Active",
    "True",
    "ScalerActive",
    "Scaling is performed because activation is being forced by annotation",
)

_NOT_ACTIVE = Condition(
    "Active", "False", "ScalerNotActive", "Scaling is not performed because triggers are not active"
)

_COOLING_DOWN = Condition(
    "Active", "False", "ScalerCooldown", "Scaler cooling down because triggers are not active"
)

Move = Literal["none", "activate", "deactivate", "lift_to_minimum"]


@dataclass(frozen=True, slots=True)
class TriggerPoll:
    """One metric as the scale loop saw it; ``error`` non-empty: it could not be read."""

    metric_name: str
    value: float | None = None
    is_active: bool = False
    error: str = ""
    in_fallback: bool = False


@dataclass(frozen=True, slots=True)
class ScaleLoopView:
    """The input of the executor: the triggers together, the target, and the clock."""

    is_active: bool
    has_error: bool
    current_replicas: int
    last_active_at_ns: int | None
    created_at_ns: int
    now_ns: int


@dataclass(frozen=True, slots=True)
class ScaleLoopDecision:
    """The outcome of one tick; ``replicas`` None leaves the target alone, ``ready`` None as is."""

    move: Move
    replicas: int | None
    last_active_at_ns: int | None
    active: Condition
    ready: Condition | None


def reuses_hpa_readings(spec: ScaledObjectSpec) -> bool:
    """Return whether the loop takes the HPA's last readings instead of polling by itself."""
    return (
        spec.floor > 0
        and spec.idle_replica_count is None
        and not spec.uses_cached_metrics
        and spec.modifiers is None
    )


def execute(spec: ScaledObjectSpec, view: ScaleLoopView) -> ScaleLoopDecision:
    """Return what KEDA's executor does; a paused object has no loop and never comes here."""
    if view.is_active or spec.annotations.forces_activation:
        return _while_active(spec, view)
    return _while_inactive(spec, view)


def _while_active(spec: ScaledObjectSpec, view: ScaleLoopView) -> ScaleLoopDecision:
    current, last = view.current_replicas, view.last_active_at_ns
    is_idle = spec.idle_replica_count is not None and current < spec.floor
    stamped = floor_to_second_ns(view.now_ns)
    active = _FORCED if spec.annotations.forces_activation else _ACTIVE
    if current == 0 or is_idle:
        if spec.annotations.scale_out_paused:
            return ScaleLoopDecision("none", None, last, active, READY)
        return ScaleLoopDecision("activate", max(spec.floor, 1), stamped, active, READY)
    if view.has_error:
        # The cooldown keeps counting from the last poll without any error.
        return ScaleLoopDecision("none", None, last, active, _PARTLY_WORKING)
    return ScaleLoopDecision("none", None, stamped, active, READY)


def _while_inactive(spec: ScaledObjectSpec, view: ScaleLoopView) -> ScaleLoopDecision:
    current, idle, last = view.current_replicas, spec.idle_replica_count, view.last_active_at_ns
    if view.has_error and (spec.fallback is None or spec.fallback.replicas != 0):
        # At zero the HPA would not follow the fallback metric, so nothing may go there now.
        ready = _NOT_WORKING if spec.fallback is None else READY
        return ScaleLoopDecision("none", None, last, _NOT_ACTIVE, ready)
    if (idle is not None and current > idle) or (current > 0 and spec.floor == 0):
        return _to_the_bottom(spec, view)
    if idle is None and current < spec.floor:
        return ScaleLoopDecision("lift_to_minimum", spec.floor, last, _NOT_ACTIVE, READY)
    return ScaleLoopDecision("none", None, last, _NOT_ACTIVE, READY)


def _to_the_bottom(spec: ScaledObjectSpec, view: ScaleLoopView) -> ScaleLoopDecision:
    last = view.last_active_at_ns
    if spec.annotations.scale_in_paused:
        return ScaleLoopDecision("none", None, last, _NOT_ACTIVE, READY)
    if not _is_cooldown_over(spec, view):
        return ScaleLoopDecision("none", None, last, _COOLING_DOWN, READY)
    bottom = spec.floor if spec.idle_replica_count is None else spec.idle_replica_count
    return ScaleLoopDecision("deactivate", bottom, last, _NOT_ACTIVE, READY)


def _is_cooldown_over(spec: ScaledObjectSpec, view: ScaleLoopView) -> bool:
    if view.last_active_at_ns is None:
        wait_ns = spec.initial_cooldown_seconds * NS_PER_SECOND
        return view.now_ns > view.created_at_ns + wait_ns
    return view.now_ns > view.last_active_at_ns + spec.cooldown_seconds * NS_PER_SECOND
