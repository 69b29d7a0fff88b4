"""KEDA's scale loop on the live cluster: poll or be pushed, decide, act, write the status."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from lagbench.adapters.kube.cluster_protocol import Manifest, key_of
from lagbench.core.hpa import Condition
from lagbench.core.keda.loop import (
    COMPOSITE_METRIC,
    ScaleLoopDecision,
    ScalersNotBuilt,
    Tick,
    TriggerPoll,
)
from lagbench.core.kubernetes import format_instant
from lagbench.core.telemetry import KedaPoll, Scaled
from lagbench.programs.autoscaler.conditions import condition_of
from lagbench.programs.autoscaler.keda.live_object import LiveObject
from lagbench.programs.autoscaler.keda.scaled_object_status import activity_fields, hpa_active
from lagbench.programs.autoscaler.status_writer import StatusWriter
from lagbench.programs.autoscaler.telemetry_router import SOURCE
from lagbench.programs.autoscaler.worker_context import WorkerContext

log = logging.getLogger(__name__)


class ScaleLoop:
    """Rounds of the loop and pushes take turns, as KEDA serialises them for each object."""

    def __init__(self, live: LiveObject, context: WorkerContext, status: StatusWriter) -> None:
        """Run no round yet."""
        self._live = live
        self._context = context
        self._status = status
        self._turn = threading.Lock()

    @property
    def polling_interval_seconds(self) -> float:
        """The wait between two rounds."""
        return float(self._live.spec.polling_interval_seconds)

    def tick(self, manifest: Manifest) -> None:
        """Do one round for the object as it is now."""
        spec = self._live.spec
        with self._turn:
            scale = self._context.cluster.get_scale(spec.target, spec.namespace)
            try:
                tick = self._live.tick(scale, is_hpa_active=self._hpa_is_active())
            except ScalersNotBuilt as error:
                # KEDA's loop does nothing at all while a scaler cannot be built.
                self._event(manifest, "Warning", "KEDAScalerFailed", str(error))
                self._report(manifest, (), is_active=False, error=str(error))
                return
            self._report_polls(manifest, tick)
            self._act(manifest, tick, scale.spec_replicas)
            activity = activity_fields(spec, self._live.external_metric_names, tick.polls)
            self._write_status(manifest, tick, activity)

    def push(self, manifest: Manifest, trigger_index: int) -> None:
        """Act on a push trigger that says it is active."""
        spec = self._live.spec
        with self._turn:
            scale = self._context.cluster.get_scale(spec.target, spec.namespace)
            tick = self._live.push(trigger_index, scale)
            self._act(manifest, tick, scale.spec_replicas)
            self._write_status(manifest, tick, {})

    def _report_polls(self, manifest: Manifest, tick: Tick) -> None:
        # KEDA names the source where a formula gathers the triggers, else the scaler.
        has_formula = self._live.spec.modifiers is not None
        reason = "KEDAMetricSourceFailed" if has_formula else "KEDAScalerFailed"
        errors = [poll.error for poll in tick.polls if poll.error]
        for error in errors:
            self._event(manifest, "Warning", reason, error)
        polls = tick.polls
        if tick.composite_milli is not None:
            polls = (*polls, TriggerPoll(COMPOSITE_METRIC, tick.composite_milli / 1000))
        is_active = tick.decision.active.status == "True"
        self._report(manifest, polls, is_active=is_active, error="; ".join(errors))

    def _report(
        self, manifest: Manifest, polls: Sequence[TriggerPoll], *, is_active: bool, error: str
    ) -> None:
        record = KedaPoll(
            at=self._context.clock.wall_ns(),
            source=SOURCE,
            scaled_object="/".join(key_of(manifest)),
            metrics={poll.metric_name: poll.value for poll in polls if poll.value is not None},
            is_active=is_active,
            error=error,
        )
        self._context.telemetry.send(manifest, record)

    def _act(self, manifest: Manifest, tick: Tick, before: int) -> None:
        spec, after = self._live.spec, tick.decision.replicas
        if after is not None:
            self._context.cluster.set_replicas(spec.target, spec.namespace, after)
            self._announce(manifest, tick, before, after)

    def _announce(self, manifest: Manifest, tick: Tick, before: int, after: int) -> None:
        spec, decision = self._live.spec, tick.decision
        target = f"{spec.target.api_version}.{spec.target.kind} {spec.namespace}/{spec.target.name}"
        active = ";".join(tick.active_metrics)
        if decision.move == "activate":
            text = f"Scaled {target} from {before} to {after}, triggered by {active}"
            self._event(manifest, "Normal", "KEDAScaleTargetActivated", text)
        elif decision.move == "deactivate":
            text = f"Deactivated {target} from {before} to {after}"
            self._event(manifest, "Normal", "KEDAScaleTargetDeactivated", text)
        log.info("%s: %s %d -> %d", spec.name, decision.move, before, after)
        record = Scaled(
            at=self._context.clock.wall_ns(),
            source=SOURCE,
            target=f"{spec.namespace}/{spec.target.name}",
            replicas_before=before,
            replicas_after=after,
            by="keda",
            reason=f"{decision.move} {active}".strip(),
        )
        self._context.telemetry.send(manifest, record)

    def _hpa(self) -> Manifest:
        spec = self._live.spec
        return self._context.directory.hpas.get((spec.namespace, spec.hpa_name)) or {}

    def _hpa_is_active(self) -> bool:
        status = self._hpa().get("status") or {}
        return bool(condition_of(status, "ScalingActive").get("status") == "True")

    def _write_status(self, manifest: Manifest, tick: Tick, fields: dict[str, Any]) -> None:
        self._report_fallback(manifest, tick.fallback)
        changes = _conditions(tick.decision, tick.fallback)
        scaling_active = condition_of(self._hpa().get("status") or {}, "ScalingActive")
        if scaling_active:
            changes.append(hpa_active(scaling_active))
        new = {**fields, **self._live.health_changes()}
        if self._live.last_active_at_ns is not None:
            new["lastActiveTime"] = format_instant(self._live.last_active_at_ns)
        self._status.write(new, changes)

    def _report_fallback(self, manifest: Manifest, fallback: Condition) -> None:
        """Record an event when the loop, not an HPA's reading, is the first to see a change."""
        was_active = condition_of(self._status.status, "Fallback").get("status") == "True"
        if fallback.status == "True" and not was_active:
            text = "ScaledObject fallback is active"
            self._event(manifest, "Normal", "ScaledObjectFallbackActivated", text)
        if fallback.status == "False" and was_active:
            text = "ScaledObject fallback is no longer active"
            self._event(manifest, "Normal", "ScaledObjectFallbackDeactivated", text)

    def _event(self, manifest: Manifest, kind: Any, reason: str, message: str) -> None:
        self._context.keda_events.record(manifest, kind, reason, message)


def _conditions(decision: ScaleLoopDecision, fallback: Condition) -> list[Condition]:
    ready = [] if decision.ready is None else [decision.ready]
    return [*ready, decision.active, fallback]
