"""One HorizontalPodAutoscaler on its own clock: read, decide, scale, write the status."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lagbench.adapters.kube.followed_cluster import (
    HPA,
    POD,
    POD_METRICS,
    Cluster,
    ClusterError,
    Manifest,
    Scale,
)
from lagbench.core.hpa.controller_flags import ControllerFlags, Tolerances, controller_flags
from lagbench.core.hpa.hpa_metrics import (
    MetricFailure,
    Proposal,
    no_samples,
    parse_pod,
    parse_pod_metrics,
    propose_external,
    propose_resource,
    resource_title,
)
from lagbench.core.hpa.hpa_object import ExternalMetric, HpaSpec, Metric, ResourceMetric, parse_hpa
from lagbench.core.hpa.hpa_sync import (
    SCALED_TO_ZERO,
    Condition,
    HpaDecision,
    HpaHistory,
    MetricOutcome,
    decide,
    record_change,
    scaled_to_zero,
    start_history,
    wants_metrics,
)
from lagbench.core.keda.loop.keda_hpa import SCALED_OBJECT_LABEL
from lagbench.core.kubernetes_values import format_instant, format_milli
from lagbench.core.telemetry.records_of_programs import HpaSync, Scaled
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.autoscaler.object_worker import SOURCE, Worker, WorkerContext

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric's outcome, what its status shows, and its raw value for telemetry."""

    outcome: MetricOutcome
    label: str
    value: float | None = None
    status: dict[str, Any] | None = None


class HpaWorker(Worker):
    """Syncs one HPA object; its history lives and ends with this worker."""

    kind = HPA

    def __init__(self, manifest: Manifest, context: WorkerContext) -> None:
        """Take the HPA up; its first sync comes after one period, or at once (HPAGeneration)."""
        super().__init__(manifest, context)
        self._history: HpaHistory | None = None
        self._is_changed = self._flags().has_gate("HPAGeneration")
        self.sync_at = context.clock.monotonic_seconds() + self._period()

    def update(self, manifest: Manifest) -> bool:
        """Take a newer version; a changed spec is synced at once (HPAGeneration)."""
        is_other = super().update(manifest)
        if is_other and self._flags().has_gate("HPAGeneration"):
            self._is_changed = True
            self.wake()
        return is_other

    def step(self) -> float:
        """Sync when it is time; the next sync is due one period after this one ended.

        A sync for a changed spec is one more: the others stay where they are.
        """
        clock, flags, period = self.context.clock, self._flags(), self._period()
        wait_seconds = self.sync_at - clock.monotonic_seconds()
        is_extra, self._is_changed = self._is_changed and wait_seconds > 0, False
        if wait_seconds > 0 and not is_extra:
            return wait_seconds
        try:
            self._sync(self.latest, flags)
        except ClusterError as error:
            log.warning("%s: sync failed: %s", self.name, error)
        finally:
            if not is_extra:
                self.sync_at = clock.monotonic_seconds() + period
        return self.sync_at - clock.monotonic_seconds()

    def finish(self) -> None:
        """Leave the target as it is: an HPA that goes changes nothing."""

    def _period(self) -> float:
        return self._flags().sync_seconds or self.context.hpa_sync_seconds

    def _flags(self) -> ControllerFlags:
        """Return the flags that the object sets for itself; none if they are wrong."""
        try:
            return controller_flags(self.latest, where=self.name)
        except WrongInput as error:
            log.warning("%s", error)
            return ControllerFlags()

    def _sync(self, manifest: Manifest, flags: ControllerFlags) -> None:
        cluster, namespace, clock = self.context.cluster, self.key[0], self.context.clock
        try:
            spec = parse_hpa(manifest, where=self.name)
            scale = cluster.get_scale(spec.target, namespace)
        except WrongInput as error:
            self._refuse("InvalidSpec", str(error))
            return
        except ClusterError as error:
            self._refuse("FailedGetScale", f"unable to get the target's current scale: {error}")
            return
        before, now_ns = scale.spec_replicas, clock.wall_ns()
        history = self._history or start_history(before, now_ns)
        settings = self.context.hpa_settings
        is_zero = flags.has_gate("HPAScaleToZero") and self.status.is_true(SCALED_TO_ZERO)
        readings: list[Reading] = []
        if wants_metrics(spec, before, is_scaled_to_zero=is_zero):
            tolerances = flags.tolerances(spec.behavior, settings.tolerance)
            readings = [self._read(one, scale, tolerances) for one in spec.metrics]
            now_ns = clock.wall_ns()
        decision = decide(
            spec,
            history,
            [reading.outcome for reading in readings],
            spec_replicas=before,
            now_ns=now_ns,
            settings=settings,
            is_scaled_to_zero=is_zero,
        )
        self._history = decision.history
        has_scaled = decision.replicas != before
        if has_scaled:
            self._scale(spec, before, decision)
            self._history = record_change(spec, decision.history, before, decision.replicas, now_ns)
        self._send_sync(scale, readings, decision, now_ns)
        for reading in readings:
            failure = reading.outcome.result
            if isinstance(failure, MetricFailure):
                self.event("Warning", failure.reason, failure.message)
        has_failed = bool(readings) and decision.proposal is None
        if has_failed and decision.error:
            self.event("Warning", "FailedComputeMetricsReplicas", decision.error)
        fields: dict[str, Any] = {
            "currentReplicas": before,
            "currentMetrics": [r.status for r in readings if r.status is not None] or None,
        }
        if not has_failed:  # a sync without a usable metric leaves the last wish in place
            fields["desiredReplicas"] = decision.replicas
        got = Condition("AbleToScale", "True", "SucceededGetScale", "the target's scale was read")
        conditions = [got, *decision.conditions]
        if has_scaled:
            fields["lastScaleTime"] = format_instant(now_ns)
            conditions += _of_change(spec, before, decision.replicas, flags)
        self.status.write(fields, conditions, now_ns=now_ns)

    def _read(self, metric: Metric, scale: Scale, tolerances: Tolerances) -> Reading:
        """Return a metric's reading: an external one from KEDA's side, a resource of the pods."""
        if isinstance(metric, ExternalMetric):
            return self._read_external(metric, scale, tolerances)
        return self._read_resource(metric, scale, tolerances)

    def _read_external(
        self, metric: ExternalMetric, scale: Scale, tolerances: Tolerances
    ) -> Reading:
        cluster, namespace = self.context.cluster, self.key[0]
        name = f"external metric {metric.name}"
        owner = dict(metric.selector).get(SCALED_OBJECT_LABEL, "")
        try:
            milli = self.context.read_metric_milli((namespace, owner), metric.name)
            proposal = propose_external(
                metric,
                milli,
                spec_replicas=scale.spec_replicas,
                status_replicas=scale.status_replicas,
                count_ready_pods=lambda: count_ready_pods(cluster, namespace, scale.selector),
                tolerances=tolerances,
            )
        except NotReady as error:
            failure = MetricFailure("FailedGetExternalMetric", f"unable to get {name}: {error}")
            return Reading(MetricOutcome(name, failure), metric.name)
        key = "averageValue" if metric.target_type == "AverageValue" else "value"
        current = {key: format_milli(proposal.usage_milli or 0)}
        identity = {"name": metric.name, "selector": {"matchLabels": dict(metric.selector)}}
        status = {"type": "External", "external": {"metric": identity, "current": current}}
        return Reading(MetricOutcome(name, proposal), metric.name, milli / 1000, status)

    def _read_resource(
        self, metric: ResourceMetric, scale: Scale, tolerances: Tolerances
    ) -> Reading:
        result = self._propose_resource(metric, scale, tolerances)
        outcome = MetricOutcome(resource_title(metric), result)
        if isinstance(result, MetricFailure):
            return Reading(outcome, metric.name)
        usage = result.usage_milli
        current: dict[str, Any] = {"averageValue": format_milli(usage or 0)}
        if result.usage_percent is not None:
            current["averageUtilization"] = result.usage_percent
        status: dict[str, Any] = {"name": metric.name, "current": current}
        kind = "Resource"
        if metric.container:
            kind, status = "ContainerResource", {"container": metric.container, **status}
        shown = {"type": kind, kind[0].lower() + kind[1:]: status}
        return Reading(outcome, metric.name, None if usage is None else usage / 1000, shown)

    def _propose_resource(
        self, metric: ResourceMetric, scale: Scale, tolerances: Tolerances
    ) -> Proposal | MetricFailure:
        cluster, namespace = self.context.cluster, self.key[0]
        try:
            samples = cluster.list(POD_METRICS, namespace, scale.selector)
            pods = cluster.list(POD, namespace, scale.selector)
        except NotReady as error:
            return no_samples(metric, str(error))
        if not samples:
            return no_samples(metric, "the resource metrics API returned none")
        found = [parse_pod_metrics(item, metric.name, metric.container) for item in samples]
        return propose_resource(
            metric,
            [parse_pod(pod, metric.name, metric.container) for pod in pods],
            dict(item for item in found if item is not None),
            spec_replicas=scale.spec_replicas,
            tolerances=tolerances,
            now_ns=self.context.clock.wall_ns(),
        )

    def _scale(self, spec: HpaSpec, before: int, decision: HpaDecision) -> None:
        after, namespace = decision.replicas, self.key[0]
        text = f"New size: {after}; reason: {decision.reason}"
        scaled_at = self.context.clock.wall_ns()  # pods may leave ahead of the answer
        try:
            self.context.cluster.set_replicas(spec.target, namespace, after)
        except ClusterError as error:
            self.event("Warning", "FailedRescale", f"{text}; error: {error}")
            self._set_unable("FailedUpdateScale", f"unable to update the target's scale: {error}")
            raise
        self.event("Normal", "SuccessfulRescale", text)
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
        self.context.telemetry.send(self.latest, record)

    def _send_sync(
        self, scale: Scale, readings: Sequence[Reading], decision: HpaDecision, now_ns: int
    ) -> None:
        shown = {item.type: f"{item.status}:{item.reason}" for item in decision.conditions}
        record = HpaSync(
            at=now_ns,
            source=SOURCE,
            hpa="/".join(self.key),
            spec_replicas=scale.spec_replicas,
            status_replicas=scale.status_replicas,
            metrics={reading.label: reading.value for reading in readings},
            proposal=decision.proposal,
            desired=decision.replicas,
            able_to_scale=shown.get("AbleToScale", ""),
            scaling_limited=shown.get("ScalingLimited", ""),
            scaling_active=shown.get("ScalingActive", ""),
            error=decision.error,
        )
        self.context.telemetry.send(self.latest, record)

    def _refuse(self, reason: str, message: str) -> None:
        log.warning("%s: %s", self.name, message)
        self.event("Warning", reason, message)
        self._set_unable(reason, message)

    def _set_unable(self, reason: str, message: str) -> None:
        unable = Condition("AbleToScale", "False", reason, message)
        self.status.write({}, [unable], now_ns=self.context.clock.wall_ns())


def _of_change(
    spec: HpaSpec, before: int, after: int, flags: ControllerFlags
) -> Iterator[Condition]:
    text = f"the target was scaled to {after}"
    yield Condition("AbleToScale", "True", "SucceededRescale", text)
    if flags.has_gate("HPAScaleToZero"):
        yield scaled_to_zero(spec, before, after)


def count_ready_pods(cluster: Cluster, namespace: str, selector: str) -> int:
    """Return how many pods of a selector are Running and Ready."""
    pods = [parse_pod(pod, "cpu") for pod in cluster.list(POD, namespace, selector)]
    return sum(pod.phase == "Running" and pod.is_ready is True for pod in pods)
