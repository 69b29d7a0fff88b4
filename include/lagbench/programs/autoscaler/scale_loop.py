"""One tick of KEDA's scale loop on the live cluster: poll, decide, act, write the status."""

from __future__ import annotations

import logging
from typing import Any

from lagbench.core.hpa_state import Condition
from lagbench.core.instants import format_instant, parse_instant_ns
from lagbench.core.keda import (
    ScaleLoopDecision,
    TriggerPoll,
    reuses_hpa_readings,
    step_scale_loop,
)
from lagbench.core.scaled_object import ScaledObjectSpec
from lagbench.core.telemetry import KedaPoll, Scaled
from lagbench.programs.autoscaler.bench import Bench
from lagbench.programs.autoscaler.cluster import Manifest, key_of
from lagbench.programs.autoscaler.conditions import condition_of
from lagbench.programs.autoscaler.scaled_object_status import (
    NO_FALLBACK,
    NOT_PAUSED,
    activity_fields,
    hpa_active,
)
from lagbench.programs.autoscaler.scalers import ScalerCache, ScalersNotBuilt
from lagbench.programs.autoscaler.status_writer import StatusWriter
from lagbench.programs.autoscaler.telemetry_router import SOURCE

log = logging.getLogger(__name__)


class ScaleLoop:
    """State of the loop between ticks: when a trigger was last seen active."""

    def __init__(
        self,
        spec: ScaledObjectSpec,
        cache: ScalerCache,
        bench: Bench,
        status: StatusWriter,
    ) -> None:
        """Continue from the lastActiveTime that the object's status keeps."""
        self.spec = spec
        self._cache = cache
        self._bench = bench
        self._status = status
        stored = status.status.get("lastActiveTime")
        self._last_active_at_ns = parse_instant_ns(stored) if stored else None

    def tick(self, manifest: Manifest) -> None:
        """Do one round for the object as it is now."""
        polls = self._polls(manifest)
        if polls is None:
            # KEDA's loop does nothing at all while a scaler cannot be built.
            return
        spec, bench = self.spec, self._bench
        scale = bench.cluster.get_scale(spec.target, spec.namespace)
        decision = step_scale_loop(
            spec,
            polls,
            current_replicas=scale.spec_replicas,
            last_active_at_ns=self._last_active_at_ns,
            created_at_ns=parse_instant_ns(manifest["metadata"]["creationTimestamp"]),
            now_ns=bench.clock.wall_ns(),
        )
        if decision.replicas is not None:
            bench.cluster.set_replicas(spec.target, spec.namespace, decision.replicas)
            self._announce(manifest, polls, decision, scale.spec_replicas, decision.replicas)
        self._last_active_at_ns = decision.last_active_at_ns
        self._write_status(polls, decision)

    def _polls(self, manifest: Manifest) -> list[TriggerPoll] | None:
        polls: list[TriggerPoll] | None = None
        if reuses_hpa_readings(self.spec) and self._hpa_is_active():
            polls = self._cache.polls_from_hpa_readings()
        if polls is None:
            try:
                polls = self._cache.poll()
            except ScalersNotBuilt as error:
                self._event(manifest, "Warning", "KEDAScalerFailed", str(error))
                self._report(manifest, [], str(error))
                return None
        for poll in polls:
            if poll.error:
                self._event(manifest, "Warning", "KEDAScalerFailed", poll.error)
        self._report(manifest, polls, "; ".join(poll.error for poll in polls if poll.error))
        return polls

    def _report(self, manifest: Manifest, polls: list[TriggerPoll], error: str) -> None:
        record = KedaPoll(
            at=self._bench.clock.wall_ns(),
            source=SOURCE,
            scaled_object="/".join(key_of(manifest)),
            metrics={poll.metric_name: poll.value for poll in polls if poll.value is not None},
            is_active=any(poll.is_active for poll in polls),
            error=error,
        )
        self._bench.telemetry.send(manifest, record)

    def _announce(
        self,
        manifest: Manifest,
        polls: list[TriggerPoll],
        decision: ScaleLoopDecision,
        before: int,
        after: int,
    ) -> None:
        spec = self.spec
        target = f"{spec.target.api_version}.{spec.target.kind} {spec.namespace}/{spec.target.name}"
        active = ", ".join(poll.metric_name for poll in polls if poll.is_active)
        if decision.move == "activate":
            text = f"Scaled {target} from {before} to {after}, triggered by {active}"
            self._event(manifest, "Normal", "KEDAScaleTargetActivated", text)
        elif decision.move == "deactivate":
            text = f"Deactivated {target} from {before} to {after}"
            self._event(manifest, "Normal", "KEDAScaleTargetDeactivated", text)
        log.info("%s: %s %d -> %d", spec.name, decision.move, before, after)
        record = Scaled(
            at=self._bench.clock.wall_ns(),
            source=SOURCE,
            target=f"{spec.namespace}/{spec.target.name}",
            replicas_before=before,
            replicas_after=after,
            by="keda",
            reason=f"{decision.move} {active}".strip(),
        )
        self._bench.telemetry.send(manifest, record)

    def _hpa(self) -> Manifest:
        return self._bench.directory.hpas.get((self.spec.namespace, self.spec.hpa_name)) or {}

    def _hpa_is_active(self) -> bool:
        status = self._hpa().get("status") or {}
        return bool(condition_of(status, "ScalingActive").get("status") == "True")

    def _write_status(self, polls: list[TriggerPoll], decision: ScaleLoopDecision) -> None:
        changes: list[Condition] = [decision.active, NO_FALLBACK, NOT_PAUSED]
        if decision.ready is not None:
            changes.insert(0, decision.ready)
        scaling_active = condition_of(self._hpa().get("status") or {}, "ScalingActive")
        if scaling_active:
            changes.append(hpa_active(scaling_active))
        fields: dict[str, Any] = activity_fields(polls)
        if self._last_active_at_ns is not None:
            fields["lastActiveTime"] = format_instant(self._last_active_at_ns)
        self._status.write(fields, changes)

    def _event(self, manifest: Manifest, kind: Any, reason: str, message: str) -> None:
        self._bench.keda_events.record(manifest, kind, reason, message)
