"""One run's measures against a reference run's, within stated bounds.

A measure regressed when it is worse than the reference by more than the larger of the absolute and
the relative bound. Two runs of the same cell differ by chance: the HPA's sync has its own phase, so
reaction alone varies by up to 15 s, and with it the peak of the lag and all that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from lagbench.core.measures import MeasureModel, Measures


@dataclass(frozen=True, slots=True)
class Bound:
    """How much worse (higher) a measure may be than the reference."""

    name: str
    title: str
    unit: str
    read: Callable[[Measures], float | None]
    absolute: float = 0.0
    relative: float = 0.0

    def allowed(self, reference: float) -> float:
        """Return the highest value that is no regression."""
        return reference + max(self.absolute, self.relative * abs(reference))


BOUNDS: tuple[Bound, ...] = (
    Bound(
        "reaction_seconds",
        "Scale-out reaction",
        "s",
        lambda m: m.reaction.assigned_seconds,
        absolute=16,  # one HPA sync (15.015 s measured) plus a second of sampling
    ),
    Bound(
        "peak_lag_records",
        "Peak lag",
        "messages",
        lambda m: m.lag.peak_records,
        relative=0.5,  # grows for as long as the reaction takes
    ),
    Bound(
        "drain_seconds",
        "Lag drain",
        "s",
        lambda m: m.drain.drain_seconds,
        absolute=16,
        relative=0.25,
    ),
    Bound(
        "time_lag_p95_seconds",
        "Time lag p95",
        "s",
        lambda m: m.lag.time_lag_seconds.p95,
        absolute=16,
        relative=0.25,
    ),
    Bound(
        "time_lag_p99_seconds",
        "Time lag p99",
        "s",
        lambda m: m.lag.time_lag_seconds.p99,
        absolute=16,
        relative=0.25,
    ),
    Bound(
        "rebalance_dip_percent",
        "Rebalance dip",
        "%",
        lambda m: m.rebalances.max_dip_percent,
        absolute=10,  # percentage points
    ),
    Bound(
        "rebalance_recovery_seconds",
        "Rebalance recovery",
        "s",
        lambda m: m.rebalances.max_recovery_seconds,
        absolute=2,
    ),
    Bound("flips", "Flapping", "flips", lambda m: m.scaling.flips),
    Bound("pod_minutes", "Pod-minutes", "min", lambda m: m.scaling.pod_minutes, relative=0.25),
    Bound("lost", "Messages lost", "messages", lambda m: m.accounting.lost_in_all),
    Bound("duplicated", "Double-processing", "processings", lambda m: m.accounting.duplicated),
    Bound("reordered", "Reordered", "messages", lambda m: m.accounting.reordered),
    Bound("zombies", "Two owners at once", "messages", lambda m: m.accounting.zombie),
)


class ComparedMeasure(MeasureModel):
    """One measure of both runs."""

    name: str
    title: str
    unit: str
    reference: float | None
    value: float | None
    allowed: float | None  # the highest value that is no regression
    status: Literal["within", "regressed", "undetermined", "not_compared"]


class Comparison(MeasureModel):
    """A run against its reference; ``reasons`` are those that decided the status."""

    run_id: str
    reference_run_id: str
    status: Literal["within", "regressed", "undetermined"]
    reasons: tuple[str, ...]
    measures: tuple[ComparedMeasure, ...]

    @property
    def regressions(self) -> tuple[ComparedMeasure, ...]:
        """The measures that got worse beyond their bound."""
        return tuple(measure for measure in self.measures if measure.status == "regressed")


def compare_measures(
    now: Measures, reference: Measures, bounds: Sequence[Bound] = BOUNDS
) -> Comparison:
    """Return ``now`` against ``reference``.

    Numbers of another fidelity are never compared: every measure is then undetermined.
    """
    reasons: list[str] = []
    if now.fidelity != reference.fidelity:
        reasons.append(f"fidelity {now.fidelity} against {reference.fidelity}: not comparable")
    compared = tuple(_compared(bound, now, reference, not reasons) for bound in bounds)
    regressed = [m for m in compared if m.status == "regressed"]
    unsure = [m for m in compared if m.status == "undetermined"]
    if regressed:
        return _comparison(now, reference, "regressed", [_text(m) for m in regressed], compared)
    if reasons or unsure:
        reasons = reasons or [_text(m) for m in unsure]
        return _comparison(now, reference, "undetermined", reasons, compared)
    return _comparison(now, reference, "within", [], compared)


def _compared(
    bound: Bound, now: Measures, reference: Measures, is_comparable: bool
) -> ComparedMeasure:
    value, before = bound.read(now), bound.read(reference)
    allowed = None if before is None else bound.allowed(before)
    status: Literal["within", "regressed", "undetermined", "not_compared"]
    if not is_comparable:
        status = "undetermined"
    elif value is None and before is None:
        status = "not_compared"  # neither run had an occasion, e.g. no scale step
    elif value is None or allowed is None:
        status = "undetermined"
    else:
        status = "within" if value <= allowed else "regressed"
    return ComparedMeasure(
        name=bound.name,
        title=bound.title,
        unit=bound.unit,
        reference=before,
        value=value,
        allowed=allowed,
        status=status,
    )


def _comparison(
    now: Measures,
    reference: Measures,
    status: Literal["within", "regressed", "undetermined"],
    reasons: Sequence[str],
    compared: tuple[ComparedMeasure, ...],
) -> Comparison:
    return Comparison(
        run_id=now.run_id,
        reference_run_id=reference.run_id,
        status=status,
        reasons=tuple(reasons),
        measures=compared,
    )


def _text(measure: ComparedMeasure) -> str:
    if measure.value is None or measure.reference is None or measure.allowed is None:
        missing = "this run" if measure.value is None else "the reference"
        return f"{measure.title}: not measured in {missing}"
    return (
        f"{measure.title}: {measure.value:g} {measure.unit}, reference {measure.reference:g}"
        f" (at most {measure.allowed:g})"
    )
