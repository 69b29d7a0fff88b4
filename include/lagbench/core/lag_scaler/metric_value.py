"""Compute the metric that the HPA divides by the target: caps by partitions, even distribution.

With lagMetric seconds the metric is the age of the oldest waiting message and the target is
lagThreshold seconds. The HPA's result depends on the trigger's metricType:
* AverageValue (the default): ceil(age / lagThreshold) replicas, one for each lagThreshold of delay.
  As with lag in records, only a lasting delay keeps several replicas.
* Value: the present replicas times age / lagThreshold, which settles at an age of lagThreshold:
  use it for an SLO. The cap then limits that factor; maxReplicaCount limits the replicas.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

from lagbench.core.keda.loop import divisors
from lagbench.core.lag_scaler.rule_parameters import LagRule


class CappedMetric(NamedTuple):
    """``value`` proposes at most ``bound`` replicas (None: no bound)."""

    value: float
    bound: int | None


def capped(rule: LagRule, value: float, *, partitions: int, with_lag: int) -> CappedMetric:
    """Return ``value`` capped so that ceil(value / target) stays within the partitions.

    KEDA compares after an integer division and so allows almost one target more, which its HPA
    rounds up to one replica too many. Zero stays zero: KEDA's even distribution would make it one
    target.
    """
    is_even = rule.ensure_even_distribution_of_partitions
    is_limited = rule.limit_to_partitions_with_lag
    if rule.allow_idle_consumers and not is_limited and not is_even:
        return CappedMetric(value, None)
    target = rule.lag_threshold
    if is_even and value > 0:
        value = _even_replicas(partitions, value / target) * target
    bound = with_lag if is_limited else partitions
    return CappedMetric(min(value, bound * target), bound)


def _even_replicas(partitions: int, wanted: float) -> int:
    """Return the smallest divisor of ``partitions`` that is not below ``wanted``, else all."""
    choices = _divisors(partitions)
    place = bisect_left(choices, wanted)
    return choices[place] if place < len(choices) else partitions


@lru_cache(maxsize=256)
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(divisors(number))
