"""One generation of a ScaledObject, alive: polled, pushed, and read by its HPA."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lagbench.adapters.kube.followed_cluster import HPA, ClusterError, Scale
from lagbench.core.keda.loop.keda_runtime import KedaObject, Tick
from lagbench.core.keda.loop.metric_readings import MetricHealth
from lagbench.core.keda.loop.scalers import (
    COMPOSITE_METRIC,
    MetricSpec,
    Scaler,
    ScalerFailed,
    ScalersNotBuilt,
    TargetView,
)
from lagbench.core.keda.loop.zero_and_minimum import TriggerPoll
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec, Trigger
from lagbench.core.kubernetes_values import format_instant, parse_instant_ns
from lagbench.core.telemetry.records_of_programs import KedaPoll, Scaled
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.hpa_worker import count_ready_pods
from lagbench.programs.autoscaler.object_worker import SOURCE, Worker, condition_of
from lagbench.programs.autoscaler.trigger_sources import PushStreams

log = logging.getLogger(__name__)


class LiveObject:
    """KEDA's state machine on the cluster; scale loop, HPA and push streams take turns at it."""

    def __init__(
        self, owner: Worker, spec: ScaledObjectSpec, build: Callable[[Trigger], Scaler]
    ) -> None:
        """Continue from the status of the owner's object."""
        self._owner, self._context = owner, owner.context
        self._lock = threading.RLock()
        self._is_closed = False
        self._streams: PushStreams | None = None
        status = owner.status.status
        last_active = status.get("lastActiveTime")
        self.keda = KedaObject(
            spec,
            build,
            created_at_ns=parse_instant_ns(owner.latest["metadata"]["creationTimestamp"]),
            last_active_at_ns=parse_instant_ns(last_active) if last_active else None,
            health={
                name: MetricHealth(item.get("numberOfFailures", 0), item.get("status") == "Failing")
                for name, item in (status.get("health") or {}).items()
            },
        )

    @property
    def is_running(self) -> bool:
        """Return whether the loop was started."""
        return self._streams is not None

    def start(self, on_new_specs: Callable[[], None]) -> None:
        """Open the push streams; ``on_new_specs``: from now on the HPA is another."""

        def streamed(trigger_index: int, specs: Sequence[MetricSpec]) -> None:
            with self.turn() as keda:
                is_new = keda.stream_specs(trigger_index, specs)
            if is_new:
                on_new_specs()

        self._streams = PushStreams(
            self._owner.key,
            self.keda.spec.triggers,
            self._context.sources,
            on_active=self.push,
            on_specs=streamed,
        )

    def close(self) -> None:
        """End the streams and let go of the scalers; nothing is served any more."""
        if self._streams is not None:
            self._streams.stop()
        with self._lock:
            self._is_closed = True
            self.keda.close()

    def poll(self) -> None:
        """Do one round of the scale loop."""
        spec = self.keda.spec
        try:
            with self.turn() as keda:
                scale = self._context.cluster.get_scale(spec.target, spec.namespace)
                hpa = self._context.objects[HPA].get((spec.namespace, spec.hpa_name)) or {}
                scaling = condition_of(hpa.get("status") or {}, "ScalingActive").get("status")
                try:
                    tick = keda.tick(
                        self._view(scale),
                        self._context.clock.wall_ns(),
                        is_hpa_active=scaling == "True",
                    )
                except ScalersNotBuilt as error:
                    # KEDA's loop does nothing at all while a scaler cannot be built.
                    self._owner.event("Warning", "KEDAScalerFailed", str(error))
                    self._send_poll((), is_active=False, error=str(error))
                    return
                self._report_polls(tick)
                self._act(tick, scale.spec_replicas)
                self._write_status(tick)
        except NotReady as error:
            log.warning("%s: poll failed: %s", self._owner.name, error)

    def push(self, trigger_index: int) -> None:
        """Act on a push trigger that says it is active."""
        spec = self.keda.spec
        with self.turn() as keda:
            scale = self._context.cluster.get_scale(spec.target, spec.namespace)
            tick = keda.push(trigger_index, self._view(scale), self._context.clock.wall_ns())
            self._act(tick, scale.spec_replicas)
            self._write_status(tick)

    def read_metric_milli(self, metric_name: str) -> int:
        """Serve an HPA: one live poll of the trigger behind ``metric_name``."""
        spec = self.keda.spec
        try:
            with self.turn() as keda:
                target = TargetView(0, 0, 0)
                if spec.fallback is not None:  # only what stands in for a reading depends on it
                    cluster = self._context.cluster
                    target = self._view(cluster.get_scale(spec.target, spec.namespace))
                return keda.read_for_hpa(metric_name, target)
        except ScalersNotBuilt as error:
            self._owner.event("Warning", "KEDAScalerFailed", str(error))
            raise
        finally:
            if spec.fallback is not None and not self._is_closed:
                try:
                    self._owner.status.write(self.health_fields(), [self.keda.fallback_condition])
                except ClusterError as error:
                    log.warning("%s: status not written: %s", self._owner.name, error)

    def health_fields(self) -> dict[str, Any]:
        """Return the status fields of the failure counters."""
        if self.keda.spec.fallback is None:
            return {}
        counters = {
            name: {
                "numberOfFailures": item.failures,
                "status": "Failing" if item.is_failing else "Happy",
            }
            for name, item in self.keda.health.items()
        }
        return {"health": counters or None}

    @contextmanager
    def turn(self) -> Iterator[KedaObject]:
        """Have the state machine alone; ``ScalerFailed`` once it is closed."""
        with self._lock:
            if self._is_closed:
                raise ScalerFailed("the ScaledObject was changed, paused or deleted meanwhile")
            yield self.keda

    def _view(self, scale: Scale) -> TargetView:
        spec = self.keda.spec
        types = {trigger.metric_type for trigger in spec.triggers}
        types |= {spec.modifiers.metric_type} if spec.modifiers is not None else set()
        ready_pods = 0
        if spec.fallback is not None and "Value" in types:
            ready_pods = count_ready_pods(self._context.cluster, spec.namespace, scale.selector)
        return TargetView(scale.spec_replicas, scale.status_replicas, ready_pods)

    def _report_polls(self, tick: Tick) -> None:
        errors = [poll.error for poll in tick.polls if poll.error]
        for error in errors:
            self._owner.event("Warning", "KEDAScalerFailed", error)
        polls = tick.polls
        if tick.composite_milli is not None:
            polls = (*polls, TriggerPoll(COMPOSITE_METRIC, tick.composite_milli / 1000))
        is_active = tick.decision.active.status == "True"
        self._send_poll(polls, is_active=is_active, error="; ".join(errors))

    def _send_poll(self, polls: Sequence[TriggerPoll], *, is_active: bool, error: str) -> None:
        record = KedaPoll(
            at=self._context.clock.wall_ns(),
            source=SOURCE,
            scaled_object="/".join(self._owner.key),
            metrics={poll.metric_name: poll.value for poll in polls if poll.value is not None},
            is_active=is_active,
            error=error,
        )
        self._context.telemetry.send(self._owner.latest, record)

    def _act(self, tick: Tick, before: int) -> None:
        spec, move, after = self.keda.spec, tick.decision.move, tick.decision.replicas
        if after is None:
            return
        self._context.cluster.set_replicas(spec.target, spec.namespace, after)
        active = ";".join(tick.active_metrics)
        target = f"{spec.target.kind} {spec.namespace}/{spec.target.name} from {before} to {after}"
        if move == "activate":
            text = f"Scaled {target}, triggered by {active}"
            self._owner.event("Normal", "KEDAScaleTargetActivated", text)
        elif move == "deactivate":
            self._owner.event("Normal", "KEDAScaleTargetDeactivated", f"Deactivated {target}")
        log.info("%s: %s %d -> %d", spec.name, move, before, after)
        record = Scaled(
            at=self._context.clock.wall_ns(),
            source=SOURCE,
            target=f"{spec.namespace}/{spec.target.name}",
            replicas_before=before,
            replicas_after=after,
            by="keda",
            reason=f"{move} {active}".strip(),
        )
        self._context.telemetry.send(self._owner.latest, record)

    def _write_status(self, tick: Tick) -> None:
        fields = self.health_fields()
        if self.keda.last_active_at_ns is not None:
            fields["lastActiveTime"] = format_instant(self.keda.last_active_at_ns)
        ready = [] if tick.decision.ready is None else [tick.decision.ready]
        self._owner.status.write(fields, [*ready, tick.decision.active, tick.fallback])
