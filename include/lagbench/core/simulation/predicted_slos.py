"""Judge a simulated cell by the SLOs that its scenario asks, with the comparison of the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.offered_load import load_spikes, offered_load
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation.simulation_measures import Spread
from lagbench.core.verdict.slo import Slo, SloResult, slo_of

SIMULATED_SLOS = (
    "reaction_seconds",
    "drain_seconds",
    "time_lag_p99_seconds",
    "flips",
    "pod_minutes",
)


def predicted_slos(
    scenario: Scenario, limits: PolicyLimits, ranges: Mapping[str, Spread]
) -> tuple[SloResult, ...]:
    """Return the outcome of each SLO with a limit that a simulation can judge.

    The range over phases or seeds is the interval of the value: an SLO that holds in some of them
    alone is undetermined.
    """
    load, slos = offered_load(scenario.profile), scenario.slos
    pod_rate = scenario.consumer.pod_rate_per_second or inf
    spikes = load_spikes(load, started_replicas=limits.started_replicas, pod_rate=pod_rate)
    watched_seconds = (ranges["watched_seconds"].low or 0.0) - load.duration_seconds
    asked = (slo_of(name, getattr(slos, name)) for name in SIMULATED_SLOS)
    found = []
    for slo in (one for one in asked if one.limit is not None):
        if slo.name in ("reaction_seconds", "drain_seconds") and not spikes:
            continue
        if slo.name == "drain_seconds" and limits.lag_threshold_records is None:
            found.append(slo.unknown(limits.threshold_rule))
            continue
        result = _judged(slo, ranges[slo.name], watched_seconds)
        found.append(result.as_warning() if slo.name in slos.warned else result)
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
