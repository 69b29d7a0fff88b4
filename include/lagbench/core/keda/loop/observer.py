"""Read one metric and put the fallback in a failing one's place, as both of KEDA's paths do."""

from __future__ import annotations

from lagbench.core.keda.loop.health import HealthBook
from lagbench.core.keda.loop.observation import Observation
from lagbench.core.keda.loop.scaler import MetricSpec, ScalerFailed, TargetView, served_milli
from lagbench.core.keda.loop.scaler_cache import ScalerCache
from lagbench.core.keda.loop.stand_in import fallback_milli
from lagbench.core.keda.object.spec import ScaledObjectSpec, Trigger
from lagbench.errors import NotReady

# KEDA's stand-in for a trigger that its formula sees as nil.
_NIL_PLACEHOLDER = (-1000,)


class MetricObserver:
    """Observes over one cache of scalers; failures count on the calling path's own counters."""

    def __init__(self, spec: ScaledObjectSpec, cache: ScalerCache, health: HealthBook) -> None:
        """Apply the object's fallback, if it has a valid one."""
        self._fallback, self._modifiers = spec.valid_fallback, spec.modifiers
        written = spec.fallback
        self._nil_from = (
            written.failure_threshold
            if written is not None and written.behavior == "scalingModifiers"
            else None
        )
        self._cache, self._health = cache, health

    def observe(
        self,
        trigger: Trigger,
        spec: MetricSpec,
        target: TargetView,
        *,
        cached: Observation | None,
        for_hpa: bool,
    ) -> Observation:
        """Return what a metric says now, or ``cached``, after the fallback."""
        seen = self._read(trigger, spec) if cached is None else cached
        fallback = self._fallback
        if fallback is None:
            return seen
        if not seen.error:
            self._health.succeed(spec.name, for_hpa=for_hpa)
            # A cached reading keeps its value, but what the fallback gave counts as a success.
            return Observation(seen.values_milli, seen.is_active) if seen.in_fallback else seen
        failures = self._health.fail(spec.name, for_hpa=for_hpa)
        if failures <= fallback.failure_threshold:
            return seen
        if fallback.behavior == "scalingModifiers":
            return Observation(_NIL_PLACEHOLDER)
        try:
            milli = fallback_milli(fallback, spec, self._modifiers, target)
        except ScalerFailed as error:
            return Observation((), error=str(error))
        return Observation((milli,), in_fallback=True)

    def is_nil(self, metric_name: str, *, for_hpa: bool) -> bool:
        """Return whether a formula sees nil in place of this metric."""
        if self._nil_from is None:
            return False
        health = self._health.seen_by(metric_name, for_hpa=for_hpa)
        return health is not None and health.failures > self._nil_from

    def _read(self, trigger: Trigger, spec: MetricSpec) -> Observation:
        try:
            reading = self._cache.read(trigger.index, spec.name)
        except NotReady as error:
            return Observation((), error=str(error) or "the trigger could not be read")
        values = tuple([served_milli(value) for value in reading.values])
        return Observation(values, reading.is_active)
