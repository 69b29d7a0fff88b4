"""Report in status and events whether a ScaledObject is ready, or why not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from lagbench.adapters.kube.cluster_protocol import ClusterError, Manifest, key_of
from lagbench.core.keda.loop import FALLBACK_UNKNOWN, NO_FALLBACK, READY, MetricSpec
from lagbench.core.keda.object import ScaledObjectSpec
from lagbench.programs.autoscaler.conditions import condition_of
from lagbench.programs.autoscaler.keda.live_object import LiveObject
from lagbench.programs.autoscaler.keda.scaled_object_status import (
    ACTIVE_UNKNOWN,
    CHECK_FAILED_ACTIVE,
    NEVER_PAUSED,
    READY_UNKNOWN,
    check_failed,
    static_fields,
    target_fields,
)
from lagbench.programs.autoscaler.status_writer import StatusWriter
from lagbench.programs.autoscaler.worker_context import WorkerContext

log = logging.getLogger(__name__)


class Readiness:
    """Writes the conditions of a reconcile and their events, as KEDA orders them."""

    def __init__(
        self, context: WorkerContext, status: StatusWriter, latest: Callable[[], Manifest]
    ) -> None:
        """Continue from the status; events are about the object as it is by then."""
        self._context = context
        self._status = status
        self._latest = latest

    def report_first(self) -> None:
        """Write the conditions of an object that has none."""
        if not self._status.status.get("conditions"):
            first = [READY_UNKNOWN, ACTIVE_UNKNOWN, FALLBACK_UNKNOWN, NEVER_PAUSED]
            self._status.write({}, first)

    def report_ready(
        self,
        spec: ScaledObjectSpec,
        live: LiveObject,
        metrics: Sequence[MetricSpec],
        *,
        original_replicas: int,
    ) -> None:
        """Write Ready and what is known by then; an event when it was not ready before."""
        status = self._status.status
        names = live.external_metric_names
        fields = {**static_fields(spec, metrics, names), **target_fields(spec.target)}
        if status.get("originalReplicaCount") is None:
            fields["originalReplicaCount"] = original_replicas
        if set(status.get("health") or {}) - set(names):
            self._status.write({"health": None}, [])  # the counters left are written with a poll
        was_ready = condition_of(status, "Ready").get("status") == "True"
        active = condition_of(status, "Active").get("reason")
        is_first = active == CHECK_FAILED_ACTIVE.reason
        self._status.write(
            fields, [READY, *([ACTIVE_UNKNOWN] if is_first else []), live.fallback_condition]
        )
        if not was_ready:
            self._context.keda_events.record(
                self._latest(), "Normal", "ScaledObjectReady", "ScaledObject is ready for scaling"
            )

    def report_failure(self, message: str, *, event: str, event_message: str) -> None:
        """Write why the object cannot be taken up; the event first, as KEDA does."""
        name = "/".join(key_of(self._latest()))
        log.warning("scaled-object %s: %s", name, message)
        self._context.keda_events.record(self._latest(), "Warning", event, event_message)
        try:
            self._status.write({}, [check_failed(message), CHECK_FAILED_ACTIVE, NO_FALLBACK])
        except ClusterError as error:
            log.warning("scaled-object %s: status not written: %s", name, error)
