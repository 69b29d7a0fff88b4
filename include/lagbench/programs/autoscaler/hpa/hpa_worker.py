"""One HorizontalPodAutoscaler on its own clock: read, decide, scale, write the status."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from lagbench.adapters.kube.cluster_protocol import HPA, ClusterError, Manifest, Scale, key_of
from lagbench.core.hpa import (
    Condition,
    ControllerFlags,
    HpaDecision,
    HpaHistory,
    HpaSpec,
    MetricFailure,
    controller_flags,
    decide,
    parse_hpa,
    record_change,
    start_history,
    wants_metrics,
)
from lagbench.core.kubernetes import format_instant
from lagbench.core.telemetry import HpaSync, Scaled
from lagbench.errors import WrongInput
from lagbench.programs.autoscaler.hpa.hpa_readings import Reading, read_metrics
from lagbench.programs.autoscaler.status_writer import StatusWriter
from lagbench.programs.autoscaler.telemetry_router import SOURCE
from lagbench.programs.autoscaler.worker import Worker
from lagbench.programs.autoscaler.worker_context import WorkerContext

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Round:
    """One sync under way."""

    spec: HpaSpec
    scale: Scale
    readings: list[Reading]
    decision: HpaDecision
    has_scaled: bool
    now_ns: int


class HpaWorker(Worker):
    """Syncs one HPA object (one uid); its history lives and ends with this worker."""

    def __init__(self, manifest: Manifest, context: WorkerContext) -> None:
        """Take the HPA up; its first sync comes after the clock's first delay."""
        super().__init__("hpa " + "/".join(key_of(manifest)))
        self._context = context
        self._latest = manifest
        self._status = StatusWriter(context.cluster, HPA, manifest)
        self._history: HpaHistory | None = None
        delay = context.hpa_clock.first_delay_seconds("/".join(key_of(manifest)))
        delay = min(delay, self._flags().sync_seconds or delay)
        self._sync_at = context.clock.monotonic_seconds() + delay

    @property
    def uid(self) -> str:
        """Uid of the HPA that was taken up."""
        return str(self._latest["metadata"].get("uid", ""))

    def update(self, manifest: Manifest) -> bool:
        """Take a newer version, which counts from the next sync on; True: its spec is another."""
        is_other = manifest.get("spec") != self._latest.get("spec")
        self._latest = manifest
        return is_other

    def step(self) -> float:
        """Sync when it is time; the next sync is due one period after this one ended."""
        clock = self._context.clock
        period = self._flags().sync_seconds or self._context.hpa_clock.period_seconds
        wait_seconds = self._sync_at - clock.monotonic_seconds()
        if wait_seconds > 0:
            return wait_seconds
        try:
            self._sync(self._latest)
        except ClusterError as error:
            log.warning("%s: sync failed: %s", self.name, error)
        finally:
            self._sync_at = clock.monotonic_seconds() + period
        return period

    def finish(self) -> None:
        """Leave the target as it is: an HPA that goes changes nothing."""
        log.info("%s: ended", self.name)

    def _flags(self) -> ControllerFlags:
        """Return the flags that the object sets for itself; none if they are wrong."""
        try:
            return controller_flags(self._latest, where=self.name)
        except WrongInput as error:
            log.warning("%s", error)
            return ControllerFlags()

    def _context_of_object(self) -> WorkerContext:
        """Return the context with the object's own tolerance."""
        tolerance = self._flags().tolerance
        if tolerance is None:
            return self._context
        settings = replace(self._context.hpa_settings, tolerance=tolerance)
        return replace(self._context, hpa_settings=settings)

    def _sync(self, manifest: Manifest) -> None:
        context, namespace = self._context_of_object(), manifest["metadata"]["namespace"]
        try:
            spec = parse_hpa(manifest, where=f"HPA {'/'.join(key_of(manifest))}")
        except WrongInput as error:
            self._refuse("InvalidSpec", str(error))
            return
        try:
            scale = context.cluster.get_scale(spec.target, namespace)
        except ClusterError as error:
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            self._refuse("FailedGetScale", text)
            return
        now_ns = context.clock.wall_ns()
        history = self._history or start_history(scale.spec_replicas, now_ns)
        readings: list[Reading] = []
        if wants_metrics(spec, scale.spec_replicas):
            readings = read_metrics(context, spec, namespace, scale)
            now_ns = context.clock.wall_ns()
        decision = decide(
            spec,
            history,
            [reading.outcome for reading in readings],
            spec_replicas=scale.spec_replicas,
            now_ns=now_ns,
            settings=context.hpa_settings,
        )
        self._history = decision.history
        has_scaled = self._scale(manifest, spec, scale, decision)
        if has_scaled:
            self._history = record_change(
                spec, decision.history, scale.spec_replicas, decision.replicas, now_ns
            )
        done = _Round(spec, scale, readings, decision, has_scaled, now_ns)
        conditions = self._conditions(done)
        self._report(manifest, done)
        self._report_failures(done)
        self._status.write(self._status_fields(done), conditions, now_ns=now_ns)

    def _scale(
        self, manifest: Manifest, spec: HpaSpec, scale: Scale, decision: HpaDecision
    ) -> bool:
        before, after = scale.spec_replicas, decision.replicas
        if before == after:
            return False
        context, namespace = self._context, manifest["metadata"]["namespace"]
        text = f"New size: {after}; reason: {decision.reason}"
        scaled_at = context.clock.wall_ns()  # before the change: pods may leave ahead of the answer
        try:
            context.cluster.set_replicas(spec.target, namespace, after)
        except ClusterError as error:
            self._event("Warning", "FailedRescale", f"{text}; error: {error}")
            failed = f"the HPA controller was unable to update the target scale: {error}"
            self._refuse("FailedUpdateScale", failed, event=False)
            raise
        self._event("Normal", "SuccessfulRescale", text)
        log.info("%s: %s -> %s (%s)", self.name, before, after, decision.reason)
        record = Scaled(
            at=scaled_at,
            source=SOURCE,
            target=f"{namespace}/{spec.target.name}",
            replicas_before=before,
            replicas_after=after,
            by="hpa",
            reason=decision.reason,
        )
        context.telemetry.send(manifest, record)
        return True

    def _conditions(self, done: _Round) -> list[Condition]:
        got = "the HPA controller was able to get the target's current scale"
        changes = [Condition("AbleToScale", "True", "SucceededGetScale", got)]
        changes += done.decision.conditions
        if done.has_scaled:
            text = (
                "the HPA controller was able to update the target scale to "
                f"{done.decision.replicas}"
            )
            changes.append(Condition("AbleToScale", "True", "SucceededRescale", text))
        return changes

    def _status_fields(self, done: _Round) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "currentReplicas": done.scale.spec_replicas,
            "currentMetrics": [r.status for r in done.readings if r.status is not None] or None,
        }
        has_failed = bool(done.readings) and done.decision.proposal is None
        if not has_failed:  # a sync without a usable metric leaves the last wish in place
            fields["desiredReplicas"] = done.decision.replicas
        if done.has_scaled:
            fields["lastScaleTime"] = format_instant(done.now_ns)
        return fields

    def _report_failures(self, done: _Round) -> None:
        for reading in done.readings:
            if isinstance(reading.outcome.result, MetricFailure):
                failure = reading.outcome.result
                self._event("Warning", failure.reason, failure.message)
        if done.decision.error and done.decision.proposal is None:
            self._event("Warning", "FailedComputeMetricsReplicas", done.decision.error)

    def _report(self, manifest: Manifest, done: _Round) -> None:
        found = {item.type: item for item in done.decision.conditions}

        def text(kind: str) -> str:
            return f"{found[kind].status}:{found[kind].reason}" if kind in found else ""

        record = HpaSync(
            at=done.now_ns,
            source=SOURCE,
            hpa="/".join(key_of(manifest)),
            spec_replicas=done.scale.spec_replicas,
            status_replicas=done.scale.status_replicas,
            metrics={reading.label: reading.value for reading in done.readings},
            proposal=done.decision.proposal,
            desired=done.decision.replicas,
            able_to_scale=text("AbleToScale"),
            scaling_limited=text("ScalingLimited"),
            scaling_active=text("ScalingActive"),
            error=done.decision.error,
        )
        self._context.telemetry.send(manifest, record)

    def _refuse(self, reason: str, message: str, *, event: bool = True) -> None:
        log.warning("%s: %s", self.name, message)
        if event:
            self._event("Warning", reason, message)
        now_ns = self._context.clock.wall_ns()
        self._status.write({}, [Condition("AbleToScale", "False", reason, message)], now_ns=now_ns)

    def _event(self, kind: Any, reason: str, message: str) -> None:
        self._context.hpa_events.record(self._latest, kind, reason, message)
