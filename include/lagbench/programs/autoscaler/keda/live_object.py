"""One generation of a ScaledObject, alive: its state machine behind a lock, served to HPAs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from lagbench.adapters.kube.cluster_protocol import ClusterError, Manifest, Scale
from lagbench.core.hpa import Condition
from lagbench.core.keda.loop import (
    FALLBACK_UNKNOWN,
    KedaObject,
    MetricSpec,
    ScalerFailed,
    ScalersNotBuilt,
    TargetView,
    Tick,
)
from lagbench.core.keda.object import ScaledObjectSpec, ScalingAnnotations
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.hpa.pods import count_ready_pods
from lagbench.programs.autoscaler.keda.scaled_object_status import (
    ACTIVE_UNKNOWN,
    READY_UNKNOWN,
    health_fields,
)
from lagbench.programs.autoscaler.status_writer import StatusWriter
from lagbench.programs.autoscaler.worker_context import WorkerContext

log = logging.getLogger(__name__)

# What the metrics API puts before an error of KEDA's operator.
_RPC_ERROR = "rpc error: code = Unknown desc = error when getting metric values"


class LiveObject:
    """Lets the scale loop, the HPAs and the push streams take turns at one state machine."""

    def __init__(
        self,
        keda: KedaObject,
        context: WorkerContext,
        status: StatusWriter,
        about: Callable[[], Manifest],
    ) -> None:
        """Serve ``keda``; events are about the object as ``about`` gives it."""
        self._keda = keda
        self._context = context
        self._status = status
        self._about = about
        self._lock = threading.Lock()
        self._is_closed = False
        # The HPA's path compares with what it saw when the scalers were built.
        self._fallback_seen_by_hpa = FALLBACK_UNKNOWN

    @property
    def spec(self) -> ScaledObjectSpec:
        """The spec of the object, with its present annotations."""
        return self._keda.spec

    @property
    def external_metric_names(self) -> Sequence[str]:
        """The external metrics of all triggers."""
        return self._keda.external_metric_names

    @property
    def fallback_condition(self) -> Condition:
        """The Fallback condition."""
        return self._keda.fallback_condition

    @property
    def last_active_at_ns(self) -> int | None:
        """When a trigger was last seen active."""
        return self._keda.last_active_at_ns

    def metric_specs(self) -> tuple[MetricSpec, ...]:
        """Return the metrics of the HPA, building the scalers; ``ScalerFailed``."""
        with self._turn() as keda:
            return keda.metric_specs()

    def annotate(self, annotations: ScalingAnnotations) -> None:
        """Take changed annotations."""
        with self._turn() as keda:
            keda.annotate(annotations)

    def stream_specs(self, trigger_index: int, specs: Sequence[MetricSpec]) -> bool:
        """Take streamed metric specs; True: the HPA is to be rebuilt."""
        with self._turn() as keda:
            return keda.stream_specs(trigger_index, specs)

    def tick(self, scale: Scale, *, is_hpa_active: bool) -> Tick:
        """Do one round of the scale loop."""
        target = self._view(scale)
        with self._turn() as keda:
            return keda.tick(target, self._context.clock.wall_ns(), is_hpa_active=is_hpa_active)

    def push(self, trigger_index: int, scale: Scale) -> Tick:
        """Act on a push trigger that says it is active."""
        target = self._view(scale)
        with self._turn() as keda:
            return keda.push(trigger_index, target, self._context.clock.wall_ns())

    def close(self) -> None:
        """Let go of the scalers; nothing is served any more."""
        with self._lock:
            self._is_closed = True
            self._keda.close()

    def health_changes(self) -> dict[str, object]:
        """Return the status fields of the failure counters."""
        return health_fields(self._keda.health) if self.spec.fallback is not None else {}

    def read_metric_milli(self, metric_name: str) -> int:
        """Serve an HPA: one live poll of the trigger behind ``metric_name``."""
        spec = self.spec
        try:
            target = TargetView(0, 0, 0)
            if spec.fallback is not None:  # only what stands in for a reading depends on it
                target = self._view(self._context.cluster.get_scale(spec.target, spec.namespace))
            with self._turn() as keda:
                return keda.read_for_hpa(metric_name, target)
        except ScalersNotBuilt as error:
            self._event("KEDAScalerFailed", str(error))
            raise NotReady(f"{_RPC_ERROR} error getting scalers {error}") from error
        except (ScalerFailed, ClusterError) as error:
            raise NotReady(f"{_RPC_ERROR} {error}") from error
        finally:
            self._report_health()

    @contextmanager
    def _turn(self) -> Iterator[KedaObject]:
        with self._lock:
            if self._is_closed:
                raise ScalerFailed("the ScaledObject was changed, paused or deleted meanwhile")
            yield self._keda

    def _view(self, scale: Scale) -> TargetView:
        spec = self.spec
        types = {trigger.metric_type for trigger in spec.triggers}
        types |= {spec.modifiers.metric_type} if spec.modifiers is not None else set()
        ready_pods = 0
        if spec.fallback is not None and "Value" in types:
            ready_pods = count_ready_pods(self._context.cluster, spec.namespace, scale.selector)
        return TargetView(scale.spec_replicas, scale.status_replicas, ready_pods)

    def _report_health(self) -> None:
        """Write what an HPA's reading changed, with the stale conditions that KEDA writes then."""
        if self.spec.fallback is None or self._is_closed:
            return
        fallback = self.fallback_condition
        changes = [fallback]
        if self._keda.hpa_writes_stale_conditions and fallback != self._fallback_seen_by_hpa:
            changes += [READY_UNKNOWN, ACTIVE_UNKNOWN]
        self._fallback_seen_by_hpa = fallback
        try:
            self._status.write(self.health_changes(), changes)
        except ClusterError as error:
            log.warning("%s: status not written: %s", self.spec.name, error)

    def _event(self, reason: str, message: str) -> None:
        self._context.keda_events.record(self._about(), "Warning", reason, message)
