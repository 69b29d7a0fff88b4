"""Compute growth-aware lag: the backlog projected with the measured rates.

Rates are means over the evidence time, a quarter of the sustain time and at least two intervals:
shorter ones fluctuate with the commit interval, longer ones show a step too late.
    out-rate  = in-rate - (lag now - lag at the start of the evidence) / its duration
    growth    = the lower of the in-rate and the usual in-rate - out-rate
The usual in-rate is the mean over the window. A burst may end at any moment: as long as the pods
could drain its backlog in time under the usual traffic, nothing is proved. After a lasting step the
backlog itself is soon too large for that.
    projected = lag now + max(0, growth) x window        (window: (windowSize - 1) x interval)
The metric never falls below the present lag, because draining consumers are still needed.
    early     = the stretch has lasted the evidence time, and
                lag now + growth x (sustainSeconds - span of the stretch) >= threshold
that is, at these rates the stretch cannot end before it has lasted sustainSeconds. Once early, a
stretch stays early until it ends: else the pods that it asked for would remove their own cause.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lagbench.core.kubernetes import NS_PER_SECOND
from lagbench.core.lag_scaler.offset_history import Instants
from lagbench.core.lag_scaler.rule_parameters import SPAN_TOLERANCE_INTERVALS, LagRule
from lagbench.core.lag_scaler.stretches import NO_STRETCH, Values

Rates = npt.NDArray[np.float64]


def evidence_intervals(rule: LagRule) -> int:
    """Return the number of sampling intervals over which rates are measured."""
    quarter = math.ceil(rule.sustain_seconds / 4 / rule.sampling_interval_seconds)
    return min(max(quarter, 2), rule.window_size - 1)


def projected_total(total: float, growth: float, rule: LagRule) -> float:
    """Return the lag expected at the end of the next window, never below the present one."""
    return total + max(0.0, growth) * rule.window_span_seconds


def cannot_drain(
    rule: LagRule, at_ns: int, values: Values, growth: Rates, started_at: Instants
) -> npt.NDArray[np.bool_]:
    """Return the values whose stretch will outlast the sustain time at the measured rates."""
    has_stretch = started_at != NO_STRETCH
    span_ns = np.where(has_stretch, at_ns - started_at, 0)
    tolerated = SPAN_TOLERANCE_INTERVALS * rule.sampling_interval_seconds
    evidence = evidence_intervals(rule) * rule.sampling_interval_seconds - tolerated
    remaining = np.maximum(rule.sustain_seconds - span_ns / NS_PER_SECOND, 0.0)
    at_the_end = values + growth * remaining
    is_early: npt.NDArray[np.bool_] = at_the_end >= rule.lag_threshold
    is_early &= has_stretch & (span_ns >= evidence * NS_PER_SECOND)
    return is_early
