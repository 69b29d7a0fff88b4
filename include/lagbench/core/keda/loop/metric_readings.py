"""One reading of all metrics of an object: what was seen, gathered over its triggers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import isfinite, trunc

from lagbench.core.keda.formula import EvaluationFailedError, Formula
from lagbench.core.keda.loop.scalers import (
    MetricSpec,
    ScalerCache,
    ScalerFailed,
    TargetView,
    served_milli,
)
from lagbench.core.keda.loop.zero_and_minimum import TriggerPoll
from lagbench.core.keda.object.scaled_object_spec import (
    Fallback,
    ScaledObjectSpec,
    ScalingModifiers,
    Trigger,
)
from lagbench.core.keda.triggers.trigger_types import RESOURCE_TYPES
from lagbench.errors import NotReady


@dataclass(frozen=True, slots=True)
class Observation:
    """One metric of one poll after fallback; ``error`` non-empty: no value."""

    values_milli: tuple[int, ...]
    is_active: bool = False
    in_fallback: bool = False
    error: str = ""

    def as_poll(self, metric_name: str, *, is_active: bool) -> TriggerPoll:
        """Return what the scale loop reports; ``is_active`` is the trigger's own."""
        if self.error:
            return TriggerPoll(metric_name, error=self.error)
        value = sum(self.values_milli) / 1000
        return TriggerPoll(metric_name, value, is_active, in_fallback=self.in_fallback)


@dataclass(slots=True)
class MetricRound:
    """The observations of one reading; ``by_trigger_name`` holds what a formula sees."""

    values_milli: list[int] = field(default_factory=list)
    by_trigger_name: dict[str, float | None] = field(default_factory=dict)
    first_fallback_milli: int | None = None
    has_error: bool = False

    def add(self, trigger_name: str, seen: Observation, *, is_nil: bool) -> None:
        """Take in one metric; ``is_nil``: a formula sees nil in place of its value."""
        if seen.error:
            self.has_error = True
            return
        self.values_milli += seen.values_milli
        if seen.in_fallback and self.first_fallback_milli is None:
            self.first_fallback_milli = seen.values_milli[0]
        if trigger_name and seen.values_milli:
            value = None if is_nil else seen.values_milli[-1] / 1000
            self.by_trigger_name[trigger_name] = value

    def composite_milli(self, formula: CompositeFormula) -> int | None:
        """Return the composite value; None when the formula cannot be evaluated."""
        if self.first_fallback_milli is not None:
            return self.first_fallback_milli
        try:
            return formula.evaluate_milli(self.by_trigger_name)
        except FormulaFailed:
            return None


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


def fallback_milli(
    fallback: Fallback, spec: MetricSpec, modifiers: ScalingModifiers | None, target: TargetView
) -> int:
    """Return the value that makes the HPA compute the fallback's replicas.

    ``ScalerFailed`` where KEDA gives none: a Value target is shared out over the ready pods, and
    without one there is nothing to divide by.
    """
    replicas = float(_replicas(fallback, target.spec_replicas))
    target_type = spec.target_type if modifiers is None else modifiers.metric_type
    if target_type == "Value":
        if target.ready_pods == 0:
            raise ScalerFailed("error performing fallback")
        replicas /= target.ready_pods
    per_replica = spec.target_milli / 1000 if modifiers is None else float(modifiers.target)
    return int(per_replica * 1000 * replicas)


def _replicas(fallback: Fallback, current: int) -> int:
    if fallback.behavior == "currentReplicas":
        return current
    if fallback.behavior == "currentReplicasIfHigher":
        return max(current, fallback.replicas)
    if fallback.behavior == "currentReplicasIfLower":
        return min(current, fallback.replicas)
    return fallback.replicas


@dataclass(frozen=True, slots=True)
class MetricHealth:
    """Consecutive failures of one metric, and whether the last poll failed."""

    failures: int = 0
    is_failing: bool = False


HEALTHY = MetricHealth()


class HealthBook:
    """The stored counters, and the HPA path's copy of them while it has one of its own."""

    def __init__(self, stored: Mapping[str, MetricHealth] | None = None) -> None:
        """Continue from the counters in the object's status."""
        self.stored: dict[str, MetricHealth] = dict(stored or {})
        self._hpa_copy: dict[str, MetricHealth] | None = None

    def copy_for_hpa(self) -> None:
        """Give the HPA's path its own copy: the scalers were built outside the scale loop."""
        self._hpa_copy = dict(self.stored)

    def share_with_hpa(self) -> None:
        """Let the HPA's path use the stored counters: the scale loop has built the scalers."""
        self._hpa_copy = None

    def keep_only(self, names: Collection[str]) -> None:
        """Drop counters of metrics that the object no longer has."""
        self.stored = {name: item for name, item in self.stored.items() if name in names}

    def seen_by(self, metric_name: str, *, for_hpa: bool) -> MetricHealth | None:
        """Return a counter as one of the two paths sees it; None: never counted."""
        return self._copy(for_hpa=for_hpa).get(metric_name)

    def succeed(self, metric_name: str, *, for_hpa: bool) -> None:
        """Reset a counter."""
        own = self._copy(for_hpa=for_hpa)
        # Nothing changes at nearly every poll of a working trigger.
        if own.get(metric_name) != HEALTHY:
            self._write(metric_name, HEALTHY, for_hpa=for_hpa)

    def fail(self, metric_name: str, *, for_hpa: bool) -> int:
        """Count one failure and return how many the path has counted by now."""
        before = self._copy(for_hpa=for_hpa).get(metric_name, HEALTHY)
        self._write(metric_name, MetricHealth(before.failures + 1, True), for_hpa=for_hpa)
        return before.failures + 1

    def exceeds(self, failure_threshold: int) -> bool:
        """Return whether any metric has failed more often than the fallback tolerates."""
        return any(
            item.is_failing and item.failures > failure_threshold for item in self.stored.values()
        )

    def _copy(self, *, for_hpa: bool) -> dict[str, MetricHealth]:
        if for_hpa and self._hpa_copy is not None:
            return self._hpa_copy
        return self.stored

    def _write(self, metric_name: str, new: MetricHealth, *, for_hpa: bool) -> None:
        before, stored = (
            self._copy(for_hpa=for_hpa).get(metric_name),
            self.stored.get(metric_name, HEALTHY),
        )
        if before is None:
            self.stored[metric_name] = new
        else:
            # A merge patch holds the fields that differ from the writer's own copy, no others.
            self.stored[metric_name] = MetricHealth(
                new.failures if new.failures != before.failures else stored.failures,
                new.is_failing if new.is_failing != before.is_failing else stored.is_failing,
            )
        if for_hpa and self._hpa_copy is not None:
            # The API's answer to the patch becomes the writer's copy.
            self._hpa_copy = dict(self.stored)


# What a Go program gets on amd64 when it turns NaN, an infinity or a huge float into an int64.
NO_INTEGER_MILLI = -(2**63)


class FormulaFailed(NotReady):
    """A formula cannot be evaluated with the values at hand: one of them is nil, say."""


class CompositeFormula:
    """A formula ready for evaluation; ``nil_milli`` is the value of one that comes to nil."""

    def __init__(self, formula: Formula, *, nil_milli: int | None) -> None:
        """Take a formula that was read."""
        self._formula, self._nil_milli = formula, nil_milli

    def evaluate_milli(self, values: Mapping[str, float | None]) -> int:
        """Return the composite value in thousandths, truncated."""
        try:
            result = self._formula.evaluate(values)
        except EvaluationFailedError as error:
            raise FormulaFailed(f"the formula gives no number: {error}") from error
        if result is None:
            if self._nil_milli is None:
                raise FormulaFailed("the formula gives nil, and no fallback is configured")
            return self._nil_milli
        thousandths = result * 1000
        if not isfinite(thousandths) or abs(thousandths) >= 2**63:
            return NO_INTEGER_MILLI
        return trunc(thousandths)


def compile_modifiers(spec: ScaledObjectSpec) -> CompositeFormula | None:
    """Return the formula of scalingModifiers, if any; the parser of the object has checked it."""
    modifiers = spec.modifiers
    if modifiers is None:
        return None
    names = [item.name for item in spec.triggers if item.name and item.type not in RESOURCE_TYPES]
    nil = None
    if spec.fallback is not None:
        nil = trunc(spec.fallback.replicas * float(modifiers.target) * 1000)
    return CompositeFormula(Formula(modifiers.formula, names), nil_milli=nil)
