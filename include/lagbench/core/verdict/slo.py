"""Judge a value with its interval against a limit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import MeasureModel, exact_text, short_beside

SloStatus = Literal["pass", "fail", "warn", "undetermined", "not_judged"]
"""``warn``: broken, with a limit that does not fail the run."""
CLAIM, NO_LIMIT = "must hold", "reported only"
CLAIMS: Mapping[str, str] = {
    "lag_falls_at_full_parallelism": "Lag falls at full parallelism",
    "baseline_at_floor": "Baseline at the floor",
    "surplus_pods_idle": "Surplus pods idle",
}
"""Titles of the SLOs that ask yes or no: they have no measure."""
SECOND_GROUP_PREFIX = "second_group."
"""Begins the names of a second group's SLOs and measures in the results of the run."""
_FIGURES = 4
"""Figures of the ends of an interval; more where they would not show the limit between them."""


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
    level: Literal["fail", "warn"] = "fail"  # what a broken limit does to the run

    @property
    def option(self) -> str:
        """The option of its limit, without the value; a second group has no own."""
        name = self.name.removeprefix(SECOND_GROUP_PREFIX)
        prefix = self.name.removesuffix(name)
        return f"--set {prefix}slos.{name}" if prefix else f"--slo {name}"

    @property
    def is_asked(self) -> bool:
        """True: it has a limit."""
        return self.threshold != NO_LIMIT

    @property
    def leaves_open(self) -> bool:
        """True: the run is undetermined by it."""
        return self.status == "undetermined" and self.level == "fail"

    @property
    def is_warning(self) -> bool:
        """True: broken or not known, which the run's status does not show."""
        return self.level == "warn" and self.status in ("warn", "undetermined")

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
    def limit_text(self) -> str:
        """Return the limit with the margin to it, and whether it only warns."""
        share = "" if self.margin is None else f"{abs(self.margin) * 100:.0f}"
        margin = "" if not share else f", {'below 1' if share == '0' else share} % "
        side = "" if self.margin is None else "over" if self.margin < 0 else "left"
        warns = ", warns" if self.level == "warn" and self.status != "warn" else ""
        return f"{self.threshold}{margin}{side}{warns}"

    @property
    def margin(self) -> float | None:
        """Return how far below its limit the value is, as a share of it; None: it is not known.

        The whole interval of the value counts.
        """
        if self.value is None or not self.limit or self.status not in ("pass", "fail", "warn"):
            return None
        ends = [end for end in (self.value, self.low, self.high) if end is not None]
        return 1 - (max(ends) if self.status == "pass" else min(ends)) / self.limit

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

    def opened(self, reason: str) -> SloResult:
        """Return it as undetermined if it was judged by something that is now in doubt."""
        if self.status not in ("pass", "fail"):
            return self.model_copy(update={"is_too_close": False})
        return self.model_copy(
            update={"status": "undetermined", "reason": f"{self.reason}; {reason}"}
        )

    def as_warning(self) -> SloResult:
        """Return it as one whose limit does not fail the run."""
        status = "warn" if self.status == "fail" else self.status
        return self.model_copy(update={"level": "warn", "status": status})

    def without_value(self, status: SloStatus, reason: str) -> SloResult:
        """Return it without what was measured."""
        gone = {"value": None, "low": None, "high": None}
        return self.model_copy(update={**gone, "status": status, "reason": reason})


@dataclass(frozen=True, slots=True)
class Slo:
    """An SLO before it is judged; ``limit`` None or False: the scenario does not judge it."""

    name: str
    title: str
    limit: float | None
    unit: str = ""

    @property
    def is_claim(self) -> bool:
        """True: it asks yes or no."""
        return isinstance(self.limit, bool)

    @property
    def threshold(self) -> str:
        """The limit in words."""
        if self.limit is None or self.limit is False:
            return NO_LIMIT
        return CLAIM if self.is_claim else f"at most {exact_text(self.limit)} {self.unit}".strip()

    def result(self, status: SloStatus, value: float | None, reason: str) -> SloResult:
        """Return the outcome; without a limit every status becomes ``not_judged``."""
        return SloResult(
            name=self.name,
            title=self.title,
            threshold=self.threshold,
            limit=None if self.is_claim else self.limit,
            value=value,
            unit=self.unit,
            status="not_judged" if self.limit is None or self.limit is False else status,
            reason=reason,
        )

    def unknown(self, reason: str, value: float | None = None) -> SloResult:
        """Return the outcome of a measure that is missing, or that may be another one."""
        return self.result("undetermined", value, reason)

    def without_occasion(self, reason: str) -> SloResult:
        """Return the outcome of a run in which there was nothing to judge."""
        return self.result("pass", None, reason).model_copy(update={"status": "not_judged"})

    def claim(self, holds: bool | None, reason: str) -> SloResult:
        """Return the outcome of a yes-or-no SLO; None is undetermined."""
        if holds is None:
            return self.unknown(reason)
        return self.result("pass" if holds else "fail", None, reason)

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
        if value is None or measure.interval is None:
            return self.unknown(reason) if value is None else self.compare(value, reason)
        bounds = measure.interval(measures)
        if bounds is None:
            return self.unknown(f"{reason}; {unbounded}", value)
        return self.compare(value, reason, low=bounds[0], high=bounds[1])

    def at_least(self, measures: Measures, value: float, reason: str, doubt: str) -> SloResult:
        """Judge a count that may be higher by ``doubt`` (empty: it is whole)."""
        if doubt and (self.limit is None or value <= self.limit):
            return self.unknown(f"{reason}; {doubt}", value)
        return self.judge(measures, reason)


def slo_of(name: str, limit: float | None) -> Slo:
    """Return the SLO with its title and unit: of a measure, or a claim."""
    if name in CLAIMS:
        return Slo(name, CLAIMS[name], limit)
    measure = NAMED[name]
    return Slo(name, measure.title, limit, measure.unit)
