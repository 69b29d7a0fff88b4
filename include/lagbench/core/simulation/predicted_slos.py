"""Judge simulated cells by the SLOs that their scenario asks, with the comparison of the verdict.

One rule judges a range over phases or seeds, and each seed alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from lagbench.core.measures.model import MeasureModel
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.offered_load import load_spikes, offered_load
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation.simulation_measures import Simulation, Spread, spreads
from lagbench.core.verdict.slo import Slo, SloResult, SloStatus, slo_of

SIMULATED_SLOS = (
    "reaction_seconds",
    "drain_seconds",
    "time_lag_p99_seconds",
    "flips",
    "pod_minutes",
)
_MOST_NAMED = 20


class BrokenSeed(MeasureModel):
    """A seed that breaks a limit, with its value; None: it never came while it was watched."""

    seed: int
    value: float | None
    text: str


class SloOverSeeds(MeasureModel):
    """An SLO over all seeds: ``slo`` has the median and the range, and the outcome of the count."""

    slo: SloResult
    broken: tuple[BrokenSeed, ...]
    undetermined: tuple[int, ...]  # seeds


def predicted_slos(
    scenario: Scenario, limits: PolicyLimits, ranges: Mapping[str, Spread]
) -> tuple[SloResult, ...]:
    """Return the outcome of each SLO with a limit that a simulation can judge.

    The range over phases or seeds is the interval of the value: an SLO that holds in some of them
    alone is undetermined.
    """
    return _AskedSlos(scenario, limits).judged(ranges)


def slos_over_seeds(
    scenario: Scenario, limits: PolicyLimits, cells: Sequence[Simulation], *, allowed: int = 0
) -> tuple[SloOverSeeds, ...]:
    """Return each of those SLOs as it fares with every seed.

    Fail: more than ``allowed`` seeds break it. Undetermined: those that are not known could make
    it so.
    """
    asked = _AskedSlos(scenario, limits)
    by_seed = [(cell.seed, asked.judged(spreads([cell]))) for cell in cells]
    return tuple(
        _over_seeds(slo, [(seed, each[place]) for seed, each in by_seed], allowed)
        for place, slo in enumerate(asked.judged(spreads(cells)))
    )


def _over_seeds(
    over_all: SloResult, by_seed: Sequence[tuple[int, SloResult]], allowed: int
) -> SloOverSeeds:
    broken = tuple(
        BrokenSeed(
            seed=seed, value=one.value, text=one.reason if one.value is None else one.value_text
        )
        for seed, one in by_seed
        if one.status in ("fail", "warn")
    )
    unknown = [(seed, one) for seed, one in by_seed if one.status == "undetermined"]
    status: SloStatus = "pass"
    if len(broken) > allowed:
        status = "fail" if over_all.level == "fail" else "warn"
    elif len(broken) + len(unknown) > allowed:
        status = "undetermined"
    named = [f"seed {one.seed} {one.text}" for one in broken[:_MOST_NAMED]]
    if len(broken) > _MOST_NAMED:
        named.append(f"and {len(broken) - _MOST_NAMED} more")
    reason = f"{len(broken)} of {len(by_seed)} seeds break it, {allowed} allowed"
    reason += f": {', '.join(named)}" if named else ""
    if unknown:
        reason += f"; not known with {len(unknown)}: {unknown[0][1].reason}"
    outcome = {"status": status, "reason": reason, "is_too_close": False}
    return SloOverSeeds(
        slo=over_all.model_copy(update=outcome),
        broken=broken,
        undetermined=tuple(seed for seed, _ in unknown),
    )


class _AskedSlos:
    """The SLOs with a limit that a simulation of the cell can judge."""

    def __init__(self, scenario: Scenario, limits: PolicyLimits) -> None:
        load = offered_load(scenario.profile)
        pod_rate = scenario.consumer.pod_rate_per_second or inf
        spikes = load_spikes(load, started_replicas=limits.started_replicas, pod_rate=pod_rate)
        of_spikes = () if spikes else ("reaction_seconds", "drain_seconds")
        names = (name for name in SIMULATED_SLOS if name not in of_spikes)
        every = (slo_of(name, getattr(scenario.slos, name)) for name in names)
        self._slos = [one for one in every if one.limit is not None]
        self._stream_seconds, self._limits = load.duration_seconds, limits
        self._warned = scenario.slos.warned

    def judged(self, ranges: Mapping[str, Spread]) -> tuple[SloResult, ...]:
        """Return the outcome of each, in one order."""
        watched_seconds = (ranges["watched_seconds"].low or 0.0) - self._stream_seconds
        found = []
        for slo in self._slos:
            if slo.name == "drain_seconds" and self._limits.lag_threshold_records is None:
                found.append(slo.unknown(self._limits.threshold_rule))
                continue
            result = _judged(slo, ranges[slo.name], watched_seconds)
            found.append(result.as_warning() if slo.name in self._warned else result)
        return tuple(found)


def _judged(slo: Slo, found: Spread, watched_seconds: float) -> SloResult:
    middle, low, high = found.median, found.low, found.high
    if found.missing and slo.name == "reaction_seconds":  # no pod was due
        return slo.compare(middle or 0.0, "", low=0.0, high=high or 0.0)
    if middle is not None and low is not None and high is not None:
        high = max(high, watched_seconds) if found.missing else high
        if not found.missing or watched_seconds > (slo.limit or 0.0):
            return slo.compare(middle, "", low=low, high=high)
    elif watched_seconds > (slo.limit or 0.0):
        return slo.result("fail", None, f"not within {watched_seconds:,.0f} s")
    return slo.unknown(f"not within {watched_seconds:,.0f} s")
