"""KEDA's runtime of one ScaledObject: both clocks' readings, fallback, composite, activity.

The scale loop calls ``tick``, every HPA sync calls ``read_for_hpa`` once per external metric. They
share scalers and failure counters as in KEDA 2.21, where what one path does is felt by the other.
No clock and no cluster here: instants and the target are arguments. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lagbench.core.hpa.hpa_sync import Condition
from lagbench.core.keda.loop.metric_readings import (
    NO_INTEGER_MILLI,
    CompositeFormula,
    HealthBook,
    MetricHealth,
    MetricObserver,
    MetricRound,
    Observation,
    compile_modifiers,
)
from lagbench.core.keda.loop.scalers import (
    COMPOSITE_METRIC,
    MetricSpec,
    ScalerBuilder,
    ScalerCache,
    ScalerFailed,
    TargetView,
)
from lagbench.core.keda.loop.zero_and_minimum import (
    ScaleLoopDecision,
    ScaleLoopView,
    TriggerPoll,
    execute,
    reuses_hpa_readings,
)
from lagbench.core.keda.object.scaled_object_spec import (
    ScaledObjectSpec,
    ScalingAnnotations,
    Trigger,
)
from lagbench.errors import NotReady

# The HPA takes a sum below zero for an overflow and reckons with the largest number instead.
_OVERFLOW_MILLI = 2**63 - 1

FALLBACK_EXISTS = Condition(
    "Fallback",
    "True",
    "FallbackExists",
    "At least one trigger is falling back on this scaled object",
)

NO_FALLBACK = Condition(
    "Fallback", "False", "NoFallbackFound", "No fallbacks are active on this scaled object"
)

FALLBACK_UNKNOWN = Condition("Fallback", "Unknown")


@dataclass(frozen=True, slots=True)
class Tick:
    """One round of the scale loop: what to do, and what to say in status and events."""

    decision: ScaleLoopDecision
    polls: tuple[TriggerPoll, ...]
    active_metrics: tuple[str, ...]  # named in the event of an activation
    has_error: bool
    fallback: Condition
    composite_milli: int | None = None


def _ignore(_: Trigger) -> None:
    return None


class KedaObject:
    """State machine of one generation of a ScaledObject."""

    def __init__(
        self,
        spec: ScaledObjectSpec,
        build: ScalerBuilder,
        *,
        created_at_ns: int,
        last_active_at_ns: int | None = None,
        health: Mapping[str, MetricHealth] | None = None,
        on_built: Callable[[Trigger], None] = _ignore,
    ) -> None:
        """Continue from the status of the object; a formula that KEDA rejects is rejected here."""
        self.spec = spec
        self.last_active_at_ns = last_active_at_ns
        self._created_at_ns = created_at_ns
        self._cache = ScalerCache(spec.triggers, build, on_built)
        self._health = HealthBook(health)
        self._observer = MetricObserver(spec, self._cache, self._health)
        self._fallback = spec.valid_fallback
        self._formula: CompositeFormula | None = compile_modifiers(spec)
        self._reuses_hpa_readings = reuses_hpa_readings(spec)
        self._is_resource_only = spec.has_only_resources
        self._records: dict[str, Observation] = {}
        self.external_metric_names: tuple[str, ...] = ()  # known once metric_specs was asked

    @property
    def health(self) -> Mapping[str, MetricHealth]:
        """The failure counters as in status.health; empty without a valid fallback."""
        return self._health.stored

    @property
    def fallback_condition(self) -> Condition:
        """The Fallback condition; Unknown until the first poll when a fallback is set."""
        if self._fallback is None:
            return NO_FALLBACK
        if self._health.exceeds(self._fallback.failure_threshold):
            return FALLBACK_EXISTS
        return NO_FALLBACK if self._health.stored else FALLBACK_UNKNOWN

    def annotate(self, annotations: ScalingAnnotations) -> None:
        """Take changed annotations: they restart neither the scalers nor the loop."""
        self.spec = self.spec.model_copy(update={"annotations": annotations})

    def ensure_built(self) -> None:
        """Build the scalers outside of both clocks, as a reconcile does; ``ScalersNotBuilt``."""
        if not self._cache.is_built:
            self._cache.build_all()
            self._health.copy_for_hpa()

    def metric_specs(self) -> tuple[MetricSpec, ...]:
        """Return the triggers' metrics; ``ScalerFailed`` when there is none, or a name twice."""
        self.ensure_built()
        specs = tuple(
            spec for item in self.spec.triggers for spec in self._cache.known_specs(item.index)
        )
        about = f"ScaledObject {self.spec.namespace}/{self.spec.name}"
        if not specs:
            raise ScalerFailed(f"no metric specs returned from scalers for {about}")
        names = tuple(spec.name for spec in specs if spec.kind == "External")
        for place, name in enumerate(names):
            if name in names[:place]:
                raise ScalerFailed(f"metricName {name} defined multiple times in {about}")
        self._health.keep_only(names)
        self.external_metric_names = names
        return specs

    def stream_specs(self, trigger_index: int, specs: Sequence[MetricSpec]) -> bool:
        """Take metric specs that a push scaler has streamed; True: the HPA is to be rebuilt."""
        return self._cache.stream_specs(trigger_index, specs)

    def close(self) -> None:
        """Let go of the scalers."""
        self._cache.clear()
        self._records.clear()

    def read_for_hpa(self, metric_name: str, target: TargetView) -> int:
        """Return a metric in thousandths as the HPA reckons with it, or raise ``ScalerFailed``.

        Live, or the loop's last reading when the trigger is cached. With scalingModifiers it is
        the composite of all triggers, whatever name is asked for.
        """
        self.ensure_built()
        gathered = MetricRound()
        for trigger in self.spec.triggers:
            # Also a trigger that is not asked for spoils the reading when it cannot tell its specs.
            for spec in self._specs(trigger, gathered):
                if spec.kind == "External" and (self._formula or spec.name == metric_name):
                    cached = self._records.get(spec.name) if trigger.uses_cached_metrics else None
                    seen = self._observer.observe(
                        trigger, spec, target, cached=cached, for_hpa=True
                    )
                    self._gather(gathered, trigger, spec, seen, for_hpa=True)
                    if self._reuses_hpa_readings:
                        self._records[spec.name] = seen
        if gathered.has_error:
            self._cache.clear()
            if gathered.first_fallback_milli is None:
                raise ScalerFailed(f"metric:{metric_name} encountered error")
        if self._formula is not None:
            return self._composite_for_hpa(metric_name, gathered.composite_milli(self._formula))
        if not gathered.values_milli:
            raise ScalerFailed(f"no matching metrics found for {metric_name}")
        return sum(gathered.values_milli)

    def tick(self, target: TargetView, now_ns: int, *, is_hpa_active: bool) -> Tick:
        """Do one round of the scale loop; ``is_hpa_active``: the HPA's ScalingActive is True.

        ``ScalersNotBuilt`` passes through: KEDA then does nothing at all in this round.
        """
        if not self._cache.is_built:
            self._cache.build_all()
            self._health.share_with_hpa()
        may_reuse = is_hpa_active and self._reuses_hpa_readings
        gathered = MetricRound()
        polls: list[TriggerPoll] = []
        cached: dict[str, Observation] = {}
        for trigger in self.spec.triggers:
            seen_here: list[tuple[str, Observation]] = []
            is_active = False
            for spec in self._specs(trigger, gathered, polls):
                if spec.kind != "External":
                    continue
                seen = self._records.get(spec.name) if may_reuse else None
                if seen is None:
                    seen = self._observer.observe(trigger, spec, target, cached=None, for_hpa=False)
                self._gather(gathered, trigger, spec, seen, for_hpa=False)
                seen_here.append((spec.name, seen))
                if trigger.uses_cached_metrics:
                    cached[spec.name] = seen
                if not seen.error:
                    # The last metric without an error decides for its trigger.
                    is_active = seen.is_active or seen.in_fallback
            polls += [seen.as_poll(name, is_active=is_active) for name, seen in seen_here]
        if gathered.has_error:
            self._cache.clear()
        if cached:
            self._records = cached
        return self._decide(target, now_ns, gathered, polls)

    def push(self, trigger_index: int, target: TargetView, now_ns: int) -> Tick:
        """Act on a push scaler that says it is active; what it says otherwise is ignored."""
        names = [spec.name for spec in self._cache.known_specs(trigger_index)]
        name = names[0] if names else ""
        decision = self._execute(target, now_ns, is_active=True, has_error=False)
        polls = (TriggerPoll(name, is_active=True),)
        return Tick(decision, polls, (name,), False, self.fallback_condition)

    def _specs(
        self, trigger: Trigger, gathered: MetricRound, polls: list[TriggerPoll] | None = None
    ) -> Sequence[MetricSpec]:
        try:
            return self._cache.specs(trigger.index)
        except NotReady as error:
            gathered.has_error = True
            if polls is not None:
                polls.append(TriggerPoll(f"s{trigger.index}-{trigger.type}", error=str(error)))
            return ()

    def _gather(
        self,
        gathered: MetricRound,
        trigger: Trigger,
        spec: MetricSpec,
        seen: Observation,
        *,
        for_hpa: bool,
    ) -> None:
        is_in_formula = self._formula is not None
        is_nil = is_in_formula and self._observer.is_nil(spec.name, for_hpa=for_hpa)
        gathered.add(trigger.name if is_in_formula else "", seen, is_nil=is_nil)

    def _composite_for_hpa(self, metric_name: str, milli: int | None) -> int:
        if milli is None:
            raise ScalerFailed(f"no matching metrics found for {metric_name}")
        if milli == NO_INTEGER_MILLI:
            # This one number does not survive the way to the HPA: it is read back as zero.
            return 0
        modifiers = self.spec.modifiers
        is_average = modifiers is None or modifiers.metric_type == "AverageValue"
        return _OVERFLOW_MILLI if milli < 0 and is_average else milli

    def _decide(
        self, target: TargetView, now_ns: int, gathered: MetricRound, polls: list[TriggerPoll]
    ) -> Tick:
        active = tuple([poll.metric_name for poll in polls if poll.is_active])
        is_active, composite = any(poll.is_active for poll in polls), None
        if self.spec.modifiers is not None and self._formula is not None:
            composite = gathered.composite_milli(self._formula)
            is_active = (
                not gathered.has_error
                and composite is not None
                and composite / 1000 > self.spec.modifiers.activation_target
            )
            active = (COMPOSITE_METRIC,) if is_active else ()
        if self._is_resource_only and not gathered.has_error:
            is_active = True
        return Tick(
            decision=self._execute(
                target, now_ns, is_active=is_active, has_error=gathered.has_error
            ),
            polls=tuple(polls),
            active_metrics=active,
            has_error=gathered.has_error,
            fallback=self.fallback_condition,
            composite_milli=composite,
        )

    def _execute(
        self, target: TargetView, now_ns: int, *, is_active: bool, has_error: bool
    ) -> ScaleLoopDecision:
        view = ScaleLoopView(
            is_active=is_active,
            has_error=has_error,
            current_replicas=target.spec_replicas,
            last_active_at_ns=self.last_active_at_ns,
            created_at_ns=self._created_at_ns,
            now_ns=now_ns,
        )
        decision = execute(self.spec, view)
        self.last_active_at_ns = decision.last_active_at_ns
        return decision
