"""Compare one run's measures with a reference run's, within stated bounds.

A measure regressed when it is worse than the reference by more than the larger of the absolute and
the relative bound. Two runs of the same cell differ by chance: the HPA's sync has its own phase, so
reaction alone varies by up to 15 s, and so do the peak of the lag and everything after it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import MeasureModel, short_beside, short_text

_FIGURES = 6
"""Figures of the numbers in a reason; more where they would not show what is above what."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The limit by which a measure may be worse (higher) than the reference."""

    name: str  # of a named measure
    absolute: float = 0.0
    relative: float = 0.0

    def width(self, reference: float) -> float:
        """Return the difference from the reference that does not count, in the measure's unit."""
        return max(self.absolute, self.relative * abs(reference))


BOUNDS: tuple[Bound, ...] = (
    # One HPA sync (15.015 s measured) plus a second of sampling.
    Bound("reaction_seconds", absolute=16),
    # It grows for as long as the reaction takes.
    Bound("peak_lag_records", relative=0.5),
    Bound("drain_seconds", absolute=16, relative=0.25),
    Bound("time_lag_p95_seconds", absolute=16, relative=0.25),
    Bound("time_lag_p99_seconds", absolute=16, relative=0.25),
    Bound("rebalance_dip_percent", absolute=10),  # percentage points
    Bound("rebalance_area_seconds", absolute=0.5),
    Bound("rebalance_recovery_seconds", absolute=2),
    Bound("standstill_seconds", absolute=2),
    Bound("flips"),
    Bound("pod_minutes", relative=0.25),
    Bound("lost"),
    Bound("duplicated"),
    Bound("reordered"),
    Bound("zombies"),
)


MeasureStatus = Literal["within", "regressed", "undetermined", "not_compared"]


class ComparedMeasure(MeasureModel):
    """One measure of both runs."""

    name: str
    title: str
    unit: str
    reference: float | None
    value: float | None
    allowed: float | None  # the highest value that is no regression
    status: MeasureStatus

    @property
    def heading(self) -> str:
        """The title with the unit, as the run folder recorded them."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def numbers(self) -> tuple[str, str, str]:
        """Reference, highest allowed value and value, as they are shown."""
        value, allowed, reference = NAMED[self.name].numbers(
            self.value, self.allowed, self.reference
        )
        return reference, allowed, value


ComparisonStatus = Literal["within", "regressed", "undetermined"]


class Comparison(MeasureModel):
    """A run against its reference; ``reasons`` decided the status."""

    run_id: str
    reference_run_id: str
    status: ComparisonStatus
    reasons: tuple[str, ...]
    measures: tuple[ComparedMeasure, ...]


def compare_measures(now: Measures, reference: Measures) -> Comparison:
    """Return ``now`` against ``reference``.

    Numbers of another fidelity are never compared: every measure is then undetermined.
    """
    is_comparable = now.fidelity == reference.fidelity
    compared = tuple(_compared(bound, now, reference, is_comparable) for bound in BOUNDS)
    status = status_of([measure.status for measure in compared])
    reasons = tuple(_text(measure) for measure in compared if measure.status == status != "within")
    if not is_comparable:
        reasons = (f"fidelity {now.fidelity} against {reference.fidelity}: not comparable",)
    return Comparison(
        run_id=now.run_id,
        reference_run_id=reference.run_id,
        status=status,
        reasons=reasons,
        measures=compared,
    )


def status_of(statuses: Collection[str]) -> ComparisonStatus:
    """Return the status of several measures, or comparisons: one that regressed decides."""
    if "regressed" in statuses:
        return "regressed"
    return "undetermined" if "undetermined" in statuses else "within"


def _compared(
    bound: Bound, now: Measures, reference: Measures, is_comparable: bool
) -> ComparedMeasure:
    measure = NAMED[bound.name]
    value, before = measure.read(now), measure.read(reference)
    allowed = None if before is None else before + bound.width(before)
    status: MeasureStatus = "undetermined"
    if is_comparable and value is None and before is None:
        status = "not_compared"  # neither run had an occasion, e.g. no scale step
    elif is_comparable and value is not None and allowed is not None:
        status = "within" if value <= allowed else "regressed"
    return ComparedMeasure(
        name=measure.name,
        title=measure.title,
        unit=measure.unit,
        reference=before,
        value=value,
        allowed=allowed,
        status=status,
    )


def _text(measure: ComparedMeasure) -> str:
    if measure.value is None or measure.reference is None or measure.allowed is None:
        missing = "this run" if measure.value is None else "the reference"
        return f"{measure.title}: not measured in {missing}"
    value, allowed = short_beside(measure.value, measure.allowed, _FIGURES)
    reference = short_text(measure.reference, _FIGURES)
    return f"{measure.title}: {value} {measure.unit}, reference {reference} (at most {allowed})"
