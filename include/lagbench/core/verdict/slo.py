"""Define an SLO, its outcome and its wording.

To add an SLO on a measure, give its limit a field of ``Slos`` (``core/scenario/scenario.py``), with
the measure's name, and judge it in the ``slos_on_*.py`` of its subject.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from lagbench.core.measures import NAMED, MeasureModel, Measures, exact_text, short_beside
from lagbench.core.measures.doubts import Part

SloStatus = Literal["pass", "fail", "undetermined", "not_judged"]


CLAIM = "must hold"
SECOND_GROUP_PREFIX = "second_group."
"""Begins the names of a second group's SLOs and measures in the results of the run."""
_FIGURES = 4
"""Figures of the ends of an interval; more where they would not show the limit between them."""


_SCALING = frozenset[Part]({"policy", "replicas"})
_RESTS_ON: Mapping[str, frozenset[Part]] = {
    "reaction_seconds": _SCALING | {"lag", "group"},
    "drain_seconds": frozenset({"policy", "lag"}),
    "lag_falls_at_full_parallelism": _SCALING | {"lag"},
    "rebalance_dip_percent": _SCALING | {"group", "work"},
    "rebalance_recovery_seconds": _SCALING | {"group", "work"},
    "rebalance_area_seconds": _SCALING | {"group", "work"},
    "standstill_seconds": frozenset({"policy", "work"}),
    "flips": _SCALING,
    "pod_minutes": _SCALING,
    "baseline_at_floor": _SCALING,
    "surplus_pods_idle": _SCALING | {"group"},
    "time_lag_p95_seconds": frozenset({"policy", "latency"}),
    "time_lag_p99_seconds": frozenset({"policy", "latency"}),
    "lost": frozenset({"messages"}),
    "failed": frozenset({"messages"}),
    "duplicated": frozenset({"messages"}),
    "reordered": frozenset({"messages", "owners"}),
    "zombies": frozenset({"messages", "owners"}),
}
"""The evidence of each SLO. The fate of messages does not depend on the author of a scaling."""


def rests_on(name: str) -> frozenset[Part]:
    """Return the parts of the evidence that the SLO ``name`` rests on."""
    return _RESTS_ON[name]


class SloResult(MeasureModel):
    """One SLO, its measured value, its status and the reason."""

    name: str  # the field of ``scenario.slos``
    title: str
    threshold: str  # in words, with its unit
    limit: float | None = None  # the number in it; None: it has none
    value: float | None
    unit: str
    status: SloStatus
    reason: str
    low: float | None = None  # the interval in which the value lies; None: as exact as ``value``
    high: float | None = None
    is_too_close: bool = False  # undetermined only because the limit lies inside the interval

    def matters_to(self, parts: Collection[str] | None) -> bool:
        """Return whether its value belongs to one of ``parts`` of ``Measures`` (None: to any).

        A claim that must hold has no value, so nothing that is compared depends on it.
        """
        measure = NAMED.get(self.name.removeprefix(SECOND_GROUP_PREFIX))
        return measure is not None and (parts is None or measure.part in parts)

    @property
    def answer(self) -> str:
        """Return yes or no for a judged claim, which has no number; else nothing."""
        if self.threshold != CLAIM:
            return ""
        return {"pass": "yes", "fail": "no"}.get(self.status, "")

    @property
    def value_text(self) -> str:
        """Return the value with its unit, or the answer; a dash without either.

        It has as many decimals as show on which side of the limit it lies.
        """
        if self.value is None:
            return self.answer or "–"
        measure = NAMED.get(self.name.removeprefix(SECOND_GROUP_PREFIX))
        if measure is None:
            return f"{exact_text(self.value)} {self.unit}"
        return measure.text(self.value, self.limit)


@dataclass(frozen=True, slots=True)
class Slo:
    """An SLO before it is judged; ``limit`` None means that the scenario does not judge it."""

    name: str
    title: str
    limit: float | None
    unit: str = ""

    @property
    def threshold(self) -> str:
        """The limit in words."""
        if self.limit is None:
            return "reported only"
        return f"at most {exact_text(self.limit)} {self.unit}".strip()

    def result(self, status: SloStatus, value: float | None, reason: str) -> SloResult:
        """Return the outcome; without a limit every status becomes ``not_judged``."""
        return SloResult(
            name=self.name,
            title=self.title,
            threshold=self.threshold,
            limit=self.limit,
            value=value,
            unit=self.unit,
            status="not_judged" if self.limit is None else status,
            reason=reason,
        )

    def compare(
        self, value: float, reason: str, *, low: float | None = None, high: float | None = None
    ) -> SloResult:
        """Judge the interval [``low``, ``high``] in which the value lies (None: ``value`` itself).

        Pass: all of it is at most the limit. Fail: all of it is above. Else: undetermined.
        """
        least, most = value if low is None else low, value if high is None else high
        status: SloStatus = "undetermined"
        if self.limit is None or most <= self.limit:
            status = "pass"
        elif least > self.limit:
            status = "fail"
        else:
            unit = f" {self.unit}" if self.unit else ""
            ends = (short_beside(end, self.limit, _FIGURES)[0] for end in (least, most))
            reason = f"{reason}; it lies between {' and '.join(ends)}{unit}"
        interval = {"low": low, "high": high, "is_too_close": status == "undetermined"}
        return self.result(status, value, reason).model_copy(update=interval)

    def judge(self, measures: Measures, reason: str, *, unbounded: str = "") -> SloResult:
        """Judge the measured value with its whole interval.

        Undetermined without a value, or without an interval that it should have (``unbounded``).
        """
        measure = NAMED[self.name]
        value = measure.read(measures)
        if value is None:
            return self.result("undetermined", None, reason)
        if measure.interval is None:
            return self.compare(value, reason)
        bounds = measure.interval(measures)
        if bounds is None:
            return self.result("undetermined", value, f"{reason}; {unbounded}")
        return self.compare(value, reason, low=bounds[0], high=bounds[1])


def claim_result(
    name: str, title: str, *, is_judged: bool, holds: bool | None, reason: str
) -> SloResult:
    """Return the outcome of a yes-or-no SLO; None is undetermined."""
    status: SloStatus = "undetermined"
    if holds is not None:
        status = "pass" if holds else "fail"
    return SloResult(
        name=name,
        title=title,
        threshold=CLAIM if is_judged else "reported only",
        value=None,
        unit="",
        status=status if is_judged else "not_judged",
        reason=reason,
    )


def not_applicable(result: SloResult) -> SloResult:
    """Return ``result`` as not judged: the run gave no occasion to judge it."""
    return result.model_copy(update={"status": "not_judged"})


def slo_of(name: str, limit: float | None) -> Slo:
    """Return the SLO on a measure of the registry, with its title and unit."""
    measure = NAMED[name]
    return Slo(name, measure.title, limit, measure.unit)
