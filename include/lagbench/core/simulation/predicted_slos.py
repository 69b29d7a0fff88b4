"""Judge simulated cells by the SLOs that their scenario asks, with the comparison of the verdict.

One rule judges a range over phases or seeds, and each seed alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lagbench.core.measures.model import MeasureModel
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import spikes_of
from lagbench.core.simulation.simulation_measures import Simulation, Spread, spreads
from lagbench.core.verdict.slo import Slo, SloResult, SloStatus, slo_of

SIMULATED_SLOS = (
    "reaction_seconds",
    "drain_seconds",
    "time_lag_p99_seconds",
    "flips",
    "pod_minutes",
)
OF_SPIKES = ("reaction_seconds", "drain_seconds")
"""SLOs that only a spike can break."""
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
    load, started = offered_load(scenario.profile), limits.started_replicas
    watched_seconds = (ranges["watched_seconds"].low or 0.0) - load.duration_seconds
    has_spikes, found = bool(spikes_of(scenario, started_replicas=started)), []
    for name in SIMULATED_SLOS:
        slo = slo_of(name, getattr(scenario.slos, name))
        if slo.limit is None or (name in OF_SPIKES and not has_spikes):
            continue
        if name == "drain_seconds" and limits.lag_threshold_records is None:
            found.append(slo.unknown(limits.threshold_rule))
            continue
        result = _judged(slo, ranges[name], watched_seconds)
        found.append(result.as_warning() if name in scenario.slos.warned else result)
    return tuple(found)


def slos_over_seeds(
    scenario: Scenario, limits: PolicyLimits, cells: Sequence[Simulation], *, allowed: int = 0
) -> tuple[SloOverSeeds, ...]:
    """Return each of those SLOs as it fares with every seed.

    Fail: more than ``allowed`` seeds break it. Undetermined: those that are not known could make
    it so.
    """
    by_seed = [(cell.seed, predicted_slos(scenario, limits, spreads([cell]))) for cell in cells]
    return tuple(
        _over_seeds(slo, [(seed, each[place]) for seed, each in by_seed], allowed)
        for place, slo in enumerate(predicted_slos(scenario, limits, spreads(cells)))
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
