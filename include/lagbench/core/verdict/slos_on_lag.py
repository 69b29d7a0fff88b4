"""Judge SLOs on lag: drain time, monotone fall, time lag."""

from __future__ import annotations

from lagbench.core.measures import NAMED, NANOSECONDS, Measures, moment
from lagbench.core.measures.lag import Drain
from lagbench.core.scenario import Slos
from lagbench.core.verdict.not_asked import not_asked
from lagbench.core.verdict.slo import Slo, SloResult, claim_result, not_applicable, slo_of


def lag_results(measures: Measures, slos: Slos) -> list[SloResult]:
    """Return the SLOs on lag, in the order of the table."""
    return [
        _drain(measures, slos),
        _falls(measures, slos),
        _time_lag(measures, slo_of("time_lag_p95_seconds", slos.time_lag_p95_seconds), 95),
        _time_lag(measures, slo_of("time_lag_p99_seconds", slos.time_lag_p99_seconds), 99),
    ]


def _drain(measures: Measures, slos: Slos) -> SloResult:
    """Judge the interval in which lag came down: since it was last known above the threshold."""
    slo = slo_of("drain_seconds", slos.drain_seconds)
    drain = measures.drain
    if measures.load.spikes == 0 and not measures.spikes_unknown:
        return not_applicable(slo.result("pass", None, "the plan of the load has no spike"))
    if drain.spike_ended_at is None:
        why = measures.spikes_unknown or "it is not known when the spike ended"
        return slo.result("undetermined", None, why)
    if drain.threshold_records is None:
        return slo.result("undetermined", None, drain.threshold_text)
    if drain.drain_seconds is None:
        return _undrained(slo, drain, drain.spike_ended_at)
    reason = f"lag at most {drain.threshold_records:g} {moment(measures, drain.drained_at)}"
    if drain.skew_limited_seconds is not None:
        reason += (
            f"; partition {drain.hottest_partition} alone needs"
            f" {drain.skew_limited_seconds:.1f} s with one pod"
        )
    unbounded = "the producer's clock is not bounded, and neither is the end of the spike"
    result = slo.judge(measures, reason, unbounded=unbounded)
    if drain.above_until_at is None or drain.drained_at is None or drain.drain_interval is None:
        return result
    return not_asked(result, measures, "lag", [(drain.above_until_at, drain.drained_at)])


def _undrained(slo: Slo, drain: Drain, spike_ended_at: int) -> SloResult:
    """Return the outcome of lag not seen to come down: fail only if seen above after the limit."""
    above_until_at = drain.above_until_at or spike_ended_at
    watched = (above_until_at - spike_ended_at) / NANOSECONDS
    reason = f"lag still above {drain.threshold_records or 0:g} {watched:.0f} s after the spike"
    error = drain.clock_error_seconds
    if slo.limit is not None and error is not None and watched - error > slo.limit:
        return slo.result("fail", None, reason)
    return slo.result("undetermined", None, f"{reason}, and no later sample shows that it fell")


def _falls(measures: Measures, slos: Slos) -> SloResult:
    unknown = measures.spikes_unknown if measures.load.spikes == 0 else ""
    result = claim_result(
        "lag_falls_at_full_parallelism",
        "Lag falls at full parallelism",
        is_judged=slos.lag_falls_at_full_parallelism,
        holds=None if unknown else measures.drain.falls_monotonically,
        reason=unknown or measures.drain.monotone_text,
    )
    if measures.load.spikes == 0 and not unknown:
        return not_applicable(result)
    return not_asked(result, measures, "lag", measures.drain.open_lag_gaps)


def _time_lag(measures: Measures, slo: Slo, percent: int) -> SloResult:
    """Judge the percentile of all messages: it lies above that of the messages that were done."""
    found, undone = measures.lag.time_lag_seconds, measures.lag.never_done
    if slo.limit is not None and undone is not None and not undone.leaves(percent):
        reason = f"{undone.text}: {percent} % of all were not done in any time"
        return slo.result("fail", None, reason)
    value = NAMED[slo.name].read(measures)
    if value is None:
        return slo.result("undetermined", None, "the time lag was not measured")
    reason = "done minus planned"
    if found.p50 is not None and found.max is not None:
        reason += f": p50 {found.p50:.2f} s, max {found.max:.2f} s"
    unbounded = "the clock of the producer, or of a pod, is not bounded"
    if undone is None or not undone.at_most:
        return slo.judge(measures, reason, unbounded=unbounded)
    reason = f"{reason}; {undone.text}"
    least = measures.lag.time_lag_interval(value)
    most = measures.lag.time_lag_interval(measures.lag.time_lag_at_most(percent))
    if least is not None and most is not None:
        return slo.compare(value, reason, low=least[0], high=most[1])
    result = slo.judge(measures, reason, unbounded=unbounded)
    if result.status != "pass":
        return result
    text = f"{reason}: so it is not known in which time {percent} % of all were done"
    return slo.result("undetermined", value, text)
