"""Define the interface of a trigger's source: metric specs and readings, for every type.

A scaler is built per trigger, is kept until it fails, and may keep state between two readings (the
offsets of excludePersistentLag). Both clocks of an object read the same scalers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Literal, Protocol

from lagbench.core.keda.object.scaled_object_spec import Trigger
from lagbench.core.keda.triggers.cron_trigger import CronTrigger
from lagbench.core.keda.triggers.trigger_types import TRIGGER_TYPES, ResourceTrigger
from lagbench.core.kubernetes_values import NS_PER_SECOND, metric_milli
from lagbench.errors import NotReady

COMPOSITE_METRIC = "composite-metric"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric as the HPA gets it; a Utilization has its target in percent."""

    name: str  # with the prefix s<i>-; "cpu" or "memory" for a resource; "composite-metric"
    kind: Literal["External", "Resource"]
    target_type: Literal["AverageValue", "Value", "Utilization"]
    target_milli: int
    target_percent: int | None = None
    container_name: str = ""


@dataclass(frozen=True, slots=True)
class MetricReading:
    """The result of one poll of one metric; several values add up in the HPA."""

    values: tuple[float, ...]
    is_active: bool


@dataclass(frozen=True, slots=True)
class TargetView:
    """The scale target at one instant; ``ready_pods`` are those Running and Ready."""

    spec_replicas: int
    status_replicas: int
    ready_pods: int


class ScalerFailed(NotReady):
    """One poll of a trigger, or the question for its metric specs, failed."""


class ScalersNotBuilt(ScalerFailed):
    """A trigger's source cannot even be opened, so no trigger of the object is served."""


class Scaler(Protocol):
    """Reads one trigger's source."""

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return the metrics of the trigger; ``ScalerFailed`` if its server reports none."""
        ...

    def read(self, metric_name: str) -> MetricReading:
        """Return a reading of the metric named with its prefix, or raise ``ScalerFailed``."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


ScalerBuilder = Callable[[Trigger], Scaler]


def served_milli(value: float) -> int:
    """Return a value as KEDA puts it on the wire: three decimals, nothing below zero."""
    if isfinite(value) and value >= 0 and value == int(value):
        return int(value) * 1000
    return metric_milli(value)


def trigger_metric_spec(trigger: Trigger) -> MetricSpec | None:
    """Return a trigger's metric; None for an external one, whose server alone knows its metrics."""
    parameters = trigger.parameters
    if isinstance(parameters, ResourceTrigger):
        return MetricSpec(
            name=parameters.resource,
            kind="Resource",
            target_type=parameters.target_type,
            target_milli=parameters.target_milli or 0,
            target_percent=parameters.target_percent,
            container_name=parameters.container_name,
        )
    known = TRIGGER_TYPES.get(trigger.type)
    if known is None or known.target_milli is None:
        return None
    return MetricSpec(
        name=trigger.metric_name,
        kind="External",
        target_type=trigger.metric_type,
        target_milli=known.target_milli(parameters),
    )


class OneMetric:
    """The one metric that a trigger's parameters name; as it is, one that the HPA reads itself."""

    def __init__(self, trigger: Trigger) -> None:
        """Take the trigger."""
        spec = trigger_metric_spec(trigger)
        self._specs: tuple[MetricSpec, ...] = () if spec is None else (spec,)

    def metric_specs(self) -> tuple[MetricSpec, ...]:
        """Return the one metric of the trigger."""
        return self._specs

    def read(self, metric_name: str) -> MetricReading:
        """Return a reading of it; of a resource the pods' usage is not KEDA's to read."""
        raise ScalerFailed(f"{metric_name} is read by the HPA, not by KEDA")

    def close(self) -> None:
        """Hold nothing."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CronScaler(OneMetric):
    """Wants the replicas inside the trigger's hours, and none outside.

    An answer holds until the next start or end; a poll in between compares two integers.
    """

    def __init__(
        self, trigger: Trigger, parameters: CronTrigger, now_ns: Callable[[], int]
    ) -> None:
        """Answer for ``trigger`` by the wall clock ``now_ns``."""
        super().__init__(trigger)
        self._parameters, self._now_ns = parameters, now_ns
        self._reading = MetricReading((0.0,), is_active=False)
        self._holds_from_ns = self._holds_until_ns = 0

    def read(self, metric_name: str) -> MetricReading:  # noqa: ARG002 - there is only one
        """Look at the clock; whether the time zone exists shows here, as in KEDA."""
        now_ns = self._now_ns()
        if not self._holds_from_ns <= now_ns < self._holds_until_ns:
            self._look(now_ns)
        return self._reading

    def _look(self, now_ns: int) -> None:
        # A schedule has minutes; rounded down, an instant keeps its place between two of them.
        second = now_ns // NS_PER_SECOND
        try:
            window = self._parameters.window_at(_EPOCH + timedelta(seconds=second))
        except ValueError as error:
            raise ScalerFailed(str(error)) from error
        value = float(self._parameters.desired_replicas) if window.is_within else 0.0
        self._reading = MetricReading((value,), window.is_within)
        self._holds_from_ns = second * NS_PER_SECOND
        self._holds_until_ns = (window.until - _EPOCH) // timedelta(seconds=1) * NS_PER_SECOND


class ScalerCache:
    """Owns one scaler per trigger from the first use until an error or ``clear``."""

    def __init__(
        self, triggers: Sequence[Trigger], build: ScalerBuilder, on_built: Callable[[Trigger], None]
    ) -> None:
        """Build nothing yet; ``on_built`` hears of each scaler that is made."""
        self._triggers = triggers
        self._build = build
        self._on_built = on_built
        self._scalers: list[Scaler] = []
        self._streamed: dict[int, tuple[MetricSpec, ...]] = {}

    @property
    def is_built(self) -> bool:
        """Return whether the scalers exist."""
        return bool(self._scalers)

    def build_all(self) -> None:
        """Build every scaler; one that cannot be built fails them all."""
        scalers: list[Scaler] = []
        for trigger in self._triggers:
            try:
                scalers.append(self._build(trigger))
            except NotReady as error:
                for scaler in scalers:
                    scaler.close()
                raise ScalersNotBuilt(str(error)) from error
            self._on_built(trigger)
        self._scalers = scalers

    def clear(self) -> None:
        """Throw all scalers away, with what they remember and what was streamed for them."""
        scalers, self._scalers = self._scalers, []
        self._streamed.clear()
        for scaler in scalers:
            scaler.close()

    def stream_specs(self, index: int, specs: Sequence[MetricSpec]) -> bool:
        """Take specs that a push scaler has streamed; False when they cannot be taken."""
        if not specs or not self._scalers:
            return False
        self._streamed[index] = tuple(specs)
        return True

    def known_specs(self, index: int) -> Sequence[MetricSpec]:
        """Return a trigger's specs without a retry; none if its server does not report them."""
        if index in self._streamed:
            return self._streamed[index]
        try:
            return self._scalers[index].metric_specs()
        except NotReady:
            return ()

    def specs(self, index: int) -> Sequence[MetricSpec]:
        """Return a trigger's specs; an empty answer is asked for again with a fresh scaler."""
        specs = self.known_specs(index)
        if specs:
            return specs
        try:
            specs = self._refresh(index).metric_specs()
        except ScalersNotBuilt as error:
            raise ScalerFailed(str(error)) from error
        except NotReady:
            specs = ()
        if not specs:
            raise ScalerFailed("got empty metric spec")
        return specs

    def read(self, index: int, metric_name: str) -> MetricReading:
        """Return a reading; a failing scaler gets one more chance with a fresh one."""
        try:
            return self._scalers[index].read(metric_name)
        except NotReady:
            pass
        try:
            return self._refresh(index).read(metric_name)
        except NotReady as error:
            # Also a scaler that cannot be built again is one failed poll here.
            raise ScalerFailed(str(error)) from error

    def _refresh(self, index: int) -> Scaler:
        trigger = self._triggers[index]
        fresh = self._build(trigger)
        self._on_built(trigger)
        self._scalers[index].close()
        self._scalers[index] = fresh
        return fresh
