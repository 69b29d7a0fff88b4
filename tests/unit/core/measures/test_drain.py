"""Drain and monotone fall."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fakes import policies
from tests.fakes.group_story import SECOND, lag_by_second, ns
from tests.fakes.telemetry import of
from tests.unit.core.measures.test_reaction import LOAD

from lagbench.core.measures.drain import (
    Drain,
    drain_measure,
    full_parallelism,
    lag_fall,
)
from lagbench.core.measures.evidence.lag_readings import Gap, LagSeries, RateSeries, lag_series
from lagbench.core.measures.pods_due import Due, Standing, pods_due
from lagbench.core.measures.reaction_stamps import ReactionInput
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.telemetry.records_of_recorder import ReplicaSample

NO_RATE = RateSeries(0, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def replicas(*pairs: tuple[int, int]) -> list[ReplicaSample]:
    """(spec, ready) per second."""
    return [of(ReplicaSample, at, spec=spec, ready=ready) for at, (spec, ready) in enumerate(pairs)]


def drain(series: LagSeries, end_second: int = 1, threshold: float | None = 100) -> Drain:
    """Return the drain after a spike that ended at ``end_second``, at constant full parallelism."""
    return drain_measure(
        series,
        replicas(*[(4, 4)] * series.at.size),
        NO_RATE,
        spike_ended_at=end_second * SECOND,
        until_at=1000 * SECOND,
        threshold=(threshold, "lagThreshold 100"),
        pod_rate=500,
    )


@pytest.mark.parametrize(
    ("values", "seconds", "precision"),
    [
        ((900, 900, 600, 300, 100, 0), 3, 1),
        ((900, 900, None, 50), 2, 2),  # an unknown total drains nothing
        ((900, 900, 800, 700), None, None),  # None, not the length of the run
    ],
)
def test_drained_at_the_first_sample_at_the_threshold(
    values: tuple[float | None, ...], seconds: float | None, precision: float | None
) -> None:
    """The spike was over at 1 s; without a threshold (a CPU policy) nothing is drained."""
    found = drain(lag_by_second(values))

    assert (found.drain_seconds, found.precision_seconds) == (seconds, precision)
    assert found.drained_at == (None if seconds is None else (1 + seconds) * SECOND)
    assert drain(lag_by_second(values), threshold=None).drain_seconds is None


@pytest.mark.parametrize(
    ("later", "high"),
    [
        ([60.9], 59.9),  # the next sample begins when this one was read
        ([60.1], 59.1),
        ([65.9], 60.4),  # a gap after it: no reading takes longer than 1.5 s
        ([], 60.4),
    ],
)
def test_lag_may_have_come_down_while_its_sample_was_read(later: list[float], high: float) -> None:
    """The sample of 59.9 s shows 0: its stamp is older than the reading, so 58.9 s is too early."""
    lags, at = [900, 900, 900, 0, *[0] * len(later)], [0, 1, 58.9, 59.9, *later]
    found = drain(lag_by_second(lags, at=at))

    assert found.drain_seconds == pytest.approx(58.9)
    assert found.drain_interval == pytest.approx((57.9, high))


def test_skew_limit_is_the_hottest_partition_over_one_pods_rate() -> None:
    """900 messages at 500 a second."""
    found = drain(lag_by_second([900, 900, 0]))

    assert found.skew_limited_seconds == pytest.approx(1.8)
    assert found.hottest_partition == 7


@pytest.mark.parametrize(
    ("values", "falls", "rise", "plateau"),
    [
        ((9000, 9000, 6000, 3000, 50), True, 0, 1),
        # Peak 10 000, so 200 are tolerated.
        ((10_000, 10_000, 8000, 8100, 8200, 8300, 4000, 50), False, 300, 4),
        ((10_000, 10_000, 8000, 8150, 5000, 50), True, 150, 2),
        # A slow rise counts as far as 5 s show it.
        ((10_000, 10_000, *range(8000, 8700, 100), 50), False, 500, 7),
        # 20 s without a new minimum, although it never rises.
        ((10_000, 10_000, *[5000] * 20, 50), False, 0, 20),
        ((900, 50, 50), True, 0, 0),  # drained before full parallelism
        # Two samples lost are jitter; with four nobody knows whether it rose in between.
        ((9000, 9000, None, None, 6000, 50), True, 0, 3),
        ((9000, 9000, None, None, None, None, 6000, 50), None, 0, 1),
        # It rose before the period that nobody saw.
        ((10_000, 10_000, 8000, 8300, None, None, None, None, 5000, 50), False, 300, 1),
    ],
)
def test_lag_falls_without_a_rise_or_a_plateau(
    values: tuple[float | None, ...], falls: bool | None, rise: int, plateau: float
) -> None:
    """A rise of 2 % of the peak over any 5 s is sampling noise; 15 s without a minimum are not."""
    found = drain(lag_by_second(values))

    assert found.falls_monotonically is falls
    assert (found.max_rise_records, found.longest_plateau_seconds) == (rise, plateau)


def test_one_second_of_work_is_tolerated() -> None:
    """At 3000/s two samples may differ by 3000 because of the commit interval."""
    rate = RateSeries(0, np.full(100, 300), np.full(100, 300))
    series = lag_by_second([10_000, 10_000, 8000, 9000, 5000, 50])

    found = lag_fall(series, rate, (SECOND, 9 * SECOND), 5 * SECOND)

    assert found.tolerance_records == pytest.approx(3000)
    assert found.falls_monotonically is True


@pytest.mark.parametrize(
    ("pairs", "ended_at", "window"),
    [
        # The maximum of 8 is wanted from 1 s on, Ready from 3 s on, lowered at 5 s.
        (((2, 2), (8, 2), (8, 5), (8, 8), (8, 8), (6, 8), (2, 2)), 1, (3 * SECOND, 5 * SECOND)),
        (((2, 2), (8, 8), (4, 4), (4, 4)), 2, None),  # scaled down before the spike ended
    ],
)
def test_full_parallelism_needs_the_pods_ready(
    pairs: tuple[tuple[int, int], ...], ended_at: int, window: tuple[int, int] | None
) -> None:
    """Without it nothing says how the lag fell."""
    assert full_parallelism(replicas(*pairs), ended_at * SECOND, 99 * SECOND) == window
    assert lag_fall(lag_by_second([1, 2]), NO_RATE, None, None).falls_monotonically is None


def test_without_replicas_nobody_knows_full_parallelism() -> None:
    """Lag falls, then rises where replicas were not seen: neither a fall nor a failure."""
    series = lag_by_second([9000, 9000, 8000, 7000, 7500, 7900, 8000, 5000, 50])
    missing = [Gap(3 * SECOND, 7 * SECOND)]
    window = (SECOND, 99 * SECOND)

    assert lag_fall(series, NO_RATE, window, 8 * SECOND).falls_monotonically is False
    assert lag_fall(series, NO_RATE, window, 8 * SECOND, missing).falls_monotonically is None
    drained_before = lag_fall(series, NO_RATE, (8 * SECOND, 99 * SECOND), 8 * SECOND, missing)
    assert drained_before.falls_monotonically is None


STEP_SECOND = 10
UNTIL_SECOND = 180
FORMULA = {"scalingModifiers": {"formula": "lag", "target": "5000"}}


def kafka(threshold: int, **fields: Any) -> dict[str, Any]:
    """Return a kafka trigger."""
    return {**policies.kafka(lagThreshold=str(threshold)), **fields}


def limits(*triggers: dict[str, Any], **spec: Any) -> PolicyLimits:
    """Return the limits of a ScaledObject from 4 to 12 replicas."""
    return policies.limits(minReplicaCount=4, triggers=list(triggers), **spec)


def steady_lag(records: int) -> LagSeries:
    """Return total lag that is 0 before the step, and ``records`` in every sample after it."""
    lags = [0 if second <= STEP_SECOND else records for second in range(UNTIL_SECOND + 1)]
    return lag_series(
        at=[ns(second) for second in range(len(lags))],
        partition=[0] * len(lags),
        end_offset=[1_000_000] * len(lags),
        committed=[1_000_000 - lag for lag in lags],
    )


def due(
    policy: PolicyLimits,
    lag: int = 60_000,
    load_needs: float | None = None,
    *,
    series: LagSeries | None = None,
) -> Due:
    """Return whether the step needed more than the 4 pods that were Ready."""
    return pods_due(
        steady_lag(lag) if series is None else series,
        policy,
        Standing(4, 4),
        partitions=12,
        step_at=ns(STEP_SECOND),
        until_at=ns(UNTIL_SECOND),
        load_needs=load_needs,
    )


def crossing(policy: PolicyLimits, replicas: int = 4) -> float | None:
    """Return the total lag above which more pods are due."""
    return ReactionInput(
        records=[],
        lag=steady_lag(0),
        timelines={},
        changes=(),
        load=LOAD,
        limits=policy,
        replicas_at_step=replicas,
        until_at=ns(UNTIL_SECOND),
    ).crossing_records


def test_lag_that_was_not_seen_may_have_needed_pods() -> None:
    """With a gap in the samples, low lag in all others does not show that no pod was due."""
    known = [second for second in range(UNTIL_SECOND + 1) if not 60 < second < 90]
    gapped = lag_by_second([100] * len(known), at=known)

    assert due(limits(kafka(20_000)), lag=100).is_due is False
    assert due(limits(kafka(20_000)), series=gapped).is_due is None


def test_a_target_of_the_whole_group_is_not_multiplied_by_the_replicas() -> None:
    """With metricType Value and a target of 20,000 a lag of 60,000 needs more than 4 pods."""
    policy = limits(kafka(20_000, metricType="Value"))

    assert due(policy).is_due is True
    assert crossing(policy) == 20_000
    assert due(policy, lag=21_000).is_due is False  # within the HPA's tolerance
    each = limits(kafka(20_000))  # a target of each replica is: 4 pods may hold 80,000
    assert (due(each).is_due, crossing(each)) == (False, 80_000)


@pytest.mark.parametrize(
    ("triggers", "records"),
    [
        ((kafka(20_000), kafka(30_000, metricType="Value")), 30_000),
        ((kafka(5_000), kafka(30_000, metricType="Value")), 20_000),
    ],
)
def test_the_trigger_with_the_highest_proposal_decides(
    triggers: tuple[dict[str, Any], ...], records: int
) -> None:
    """Of a target of each replica and one of the group, the lower total for 4 pods counts."""
    assert crossing(limits(*triggers)) == records
    assert crossing(limits(*reversed(triggers))) == records


def test_a_formula_leaves_open_whether_a_pod_was_due() -> None:
    """It replaces the targets, and no pod is known to be due or not, whatever the load needs."""
    policy = limits(kafka(20_000, name="lag"), advanced=FORMULA)

    for found in (due(policy), due(policy, load_needs=3)):
        assert found.is_due is None
    assert crossing(policy) is None


def test_the_annotation_of_a_cpu_policy_counts_for_each_replica() -> None:
    """So that it is judged as the lag policy with which it is compared."""
    manifest = policies.hpa(minReplicas=4, maxReplicas=12)
    manifest["metadata"]["annotations"] = {"lagbench.io/lag-threshold": "20000"}
    policy = Policy.read(manifest, where="f").limits

    assert (due(policy).is_due, crossing(policy)) == (False, 80_000)
