"""One reading of all metrics of an object: what was seen, gathered over its triggers."""

from __future__ import annotations

from dataclasses import dataclass, field

from lagbench.core.keda.loop.composite import CompositeFormula, FormulaFailed
from lagbench.core.keda.loop.scale_loop import TriggerPoll


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
