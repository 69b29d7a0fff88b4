"""The advice on one or several scenarios, as ``advice.json`` has it.

A number that was not computed is None. The costs are pod-minutes in total: from the stream's start
to the end of what is simulated, so that they hold what a slow scale-down costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from lagbench.core.advice.proof import ProvedPolicy
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.model import MeasureModel
from lagbench.core.simulation.simulation_measures import Spread
from lagbench.core.verdict.slo import Slo, slo_of

Answer = Literal["advice", "no_policy", "not_enough_data"]
Family = Literal["lag", "lag-scaler", "backlog-slo", "cron", "fixed", "present", "rival"]
"""``lag``: KEDA's kafka trigger; ``backlog-slo``: rate + backlog / SLO as a Prometheus query;
``cron``: lag with pods before each spike; ``fixed``: every pod at any time, the least lag of all;
``present``: the user's own policy; ``rival``: another policy that was given."""
Knob = float | int | str | bool | None
BoundName = Literal[
    "floor", "ceiling", "hottest_partition", "least_value", "reaction", "standing_lag", "loop_gain"
]


class AskedSlo(MeasureModel):
    """One limit; ``name`` is of ``SIMULATED_SLOS``."""

    name: str
    limit: float

    @property
    def slo(self) -> Slo:
        """The SLO of the verdict, with title and unit."""
        return slo_of(self.name, self.limit)

    def text(self, value: float | None) -> str:
        """Return a value with its unit, on its side of the limit."""
        return NAMED[self.name].text(value, self.limit)


class Bound(MeasureModel):
    """A limit of every policy (or of the present one), known without a search."""

    scenario: str
    name: BoundName
    title: str
    value: float | None
    unit: str
    text: str  # one sentence with the number
    is_broken: bool = False  # it alone says that no policy can hold the SLO


class ScenarioResult(MeasureModel):
    """One candidate on one scenario, over the draws that it was simulated with."""

    scenario: str
    draws: int
    slo_value: Spread  # of the first SLO
    real_range: tuple[float, float] | None  # 90 % of real runs, by the residuals; None: not known
    pod_minutes: Spread  # in all
    flips: Spread
    measures: dict[str, Spread]  # by the names of ``KEPT``
    broken: dict[str, int]  # draws that break it, by the SLO's name
    holds: bool  # every SLO with each draw, and with the margin


class Candidate(MeasureModel):
    """One policy that was simulated; ``knobs`` are what the search has set."""

    name: str
    family: Family
    knobs: dict[str, Knob]
    manifest: dict[str, Any]
    results: tuple[ScenarioResult, ...]
    holds: bool  # in each scenario
    regret: float | None = None
    """Share of pod-minutes above the cheapest that may be advised, in the worst scenario and draw;
    None: it does not hold, or is a cron for one who has none."""

    @property
    def pod_minutes(self) -> float | None:
        """The mean over the scenarios of the medians; None: a scenario has none."""
        known = _known(one.pod_minutes.median for one in self.results)
        return sum(known) / len(known) if known and len(known) == len(self.results) else None

    @property
    def slo_value(self) -> float | None:
        """The highest median of the first SLO's measure over the scenarios; None: never known."""
        return max(_known(one.slo_value.median for one in self.results), default=None)

    @property
    def worst_value(self) -> float | None:
        """The highest of all draws and scenarios; None: with one of them it never came true."""
        found = [one.slo_value for one in self.results]
        known = _known(one.high for one in found if not one.missing)
        return max(known) if known and len(known) == len(found) else None

    @property
    def flips(self) -> float | None:
        """The most flips over the scenarios, medians."""
        return max(_known(one.flips.median for one in self.results), default=None)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


class Importance(MeasureModel):
    """Of the variance of the SLO's measure over the first stage, the share that a knob decides."""

    knob: str
    share: float
    of_pod_minutes: float  # the same of the cost


class RobustRow(MeasureModel):
    """One of the best candidates under other assumptions than those of the search."""

    candidate: str
    variant: str  # pod start 15 s, process_ms +20 %, …
    scenario: str
    value: float | None  # of the first SLO, the highest over the draws
    holds: bool


class Dropped(MeasureModel):
    """A candidate that was among the best, and why it is not advised."""

    candidate: str
    reason: str


class Margin(MeasureModel):
    """By how much a real run may be above the simulated range of the pick."""

    slo: str
    value: float | None  # in the SLO's unit; None: no residuals are known
    text: str
    runs: int  # that have shown it


class Change(MeasureModel):
    """One line of the present policy that the pick has otherwise.

    The effect is simulated: the pick with that one line as it was. None: it cannot be simulated.
    """

    field: str  # dotted
    before: str | None  # None: not written
    after: str | None
    reason: str
    slo_value: float | None  # of the pick without the change
    pod_minutes: float | None
    holds: bool | None
    effect: str  # one phrase


class Searched(MeasureModel):
    """The effort; ``seconds`` is filled in by the caller, who has a clock."""

    candidates: int
    simulations: int
    seconds: float | None = None


class Advice(MeasureModel):
    """The answer: the cheapest policy that holds the SLO, or why there is none."""

    outcome: Answer
    question: str = ""  # ``Question.key``
    reasons: tuple[str, ...]  # each a sentence; of an advice its conditions
    slo: AskedSlo  # the front's axis
    also: tuple[AskedSlo, ...] = ()  # further SLOs, which must hold, too
    scenarios: tuple[str, ...]
    seeds: int  # draws of phases and start-up times in the last stage
    bounds: tuple[Bound, ...]
    front: tuple[Candidate, ...] = ()  # ascending pod-minutes
    pick: Candidate | None = None
    runner_up: Candidate | None = None
    present: Candidate | None = None
    rivals: tuple[Candidate, ...] = ()  # that were given, wherever they stand
    knee: str | None = None  # name of a candidate of the front
    importance: tuple[Importance, ...] = ()
    robust: tuple[RobustRow, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    margin: Margin | None = None
    changes: tuple[Change, ...] = ()  # of the present policy, in the order of the pick
    proof: tuple[ProvedPolicy, ...] = ()  # by scenario and role; empty: not rehearsed
    searched: Searched = Searched(candidates=0, simulations=0)
    left_out: tuple[str, ...] = ()  # of the scenarios: what is not simulated
    kubernetes: str | None = None  # the version that the candidates are for; None: older advice
