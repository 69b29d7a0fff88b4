"""When lag persists: the trailing stretch, its span, its gaps, its scope."""

import pytest
from tests.fakes.lag_samples import at, judged, lags, rule, window

from lagbench.core.lag_scaler.lag_rule import LagUnavailable
from lagbench.core.lag_scaler.lag_source import failed_sample


def test_lag_persists_once_its_stretch_spans_the_sustain_time() -> None:
    """600 records on one partition since t = 0: not persistent at 18 s, persistent at 20 s."""
    samples = [lags(2 * number, 600, 0) for number in range(11)]

    assert not judged(samples[:-1]).is_persistent
    assert judged(samples).is_persistent
    assert judged(samples).metric_value == 600


@pytest.mark.parametrize(("lag", "is_persistent"), [(499, False), (500, True), (501, True)])
def test_the_threshold_itself_counts_as_lag(lag: int, is_persistent: bool) -> None:
    """At or above: the original's README said above, its code at or above."""
    assert judged([lags(2 * n, lag) for n in range(11)]).is_persistent == is_persistent


def test_a_stretch_that_ended_does_not_count() -> None:
    """60 s of lag and one sample below: neither persistent nor active, and the metric is 0."""
    samples = [lags(2 * number, 600) for number in range(30)]

    decision = judged([*samples, lags(60, 0)])

    assert not decision.is_persistent
    assert not decision.is_active
    assert decision.metric_value == 0


def test_a_new_spike_after_a_long_stretch_has_to_last_by_itself() -> None:
    """The original scaled at once on any spike for up to 180 s after an old stretch."""
    old = [lags(2 * number, 600) for number in range(29)]
    spike = [lags(58, 0), *(lags(60 + 2 * number, 900) for number in range(9))]

    assert not judged([*old, *spike]).is_persistent
    assert judged([*old, *spike, lags(80, 900)]).is_persistent


@pytest.mark.parametrize(("last_seconds", "is_persistent"), [(18.9, False), (19.0, True)])
def test_jitter_does_not_cost_an_interval(last_seconds: float, is_persistent: bool) -> None:
    """The span is met within half an interval: with 2 s between samples, 19 s are 20 s."""
    samples = [lags(2 * number, 600) for number in range(9)]

    assert judged([*samples, lags(last_seconds, 600)]).is_persistent == is_persistent


def test_late_samples_of_a_real_clock_still_meet_the_span() -> None:
    """Ten intervals that add up to 19.993 s are enough (the original missed in 14 of 24 runs)."""
    samples = [lags(0.003 if number == 0 else 2 * number - 0.004, 600) for number in range(11)]

    assert judged(samples).is_persistent


@pytest.mark.parametrize(("gap", "is_persistent"), [(5.0, True), (5.001, False)])
def test_missed_samples_end_a_stretch(gap: float, is_persistent: bool) -> None:
    """Up to 2.5 intervals may pass without a sample; what lies behind a longer gap is unknown."""
    before = [lags(2 * number, 600) for number in range(9)]

    assert judged([*before, lags(16 + gap, 600)]).is_persistent == is_persistent


def test_two_samples_far_apart_are_no_stretch() -> None:
    """The original called a partition persistent on samples 9.2 s and 25.3 s into the lag."""
    assert not judged([lags(0, 600), lags(25, 600)]).is_persistent


def test_an_outage_is_a_gap_and_not_a_decision() -> None:
    """Failed reads leave the last decision for 2.5 intervals, then there is none."""
    chosen = rule()
    over = window(chosen)
    watched = over.watch(chosen)
    for number in range(11):
        over.add(lags(2 * number, 600))
    for number in range(11, 14):
        assert not over.add(failed_sample(at(2 * number), "refused"))

    assert watched.decide(at(25)).is_persistent
    with pytest.raises(LagUnavailable, match=r" 5\.1 s .*refused"):
        watched.decide(at(25.1))


def test_after_an_outage_the_stretch_begins_anew() -> None:
    """Lag before and after 8 s without a sample: 18 s after the outage are not enough."""
    samples = [lags(2 * number, 600) for number in range(11)]
    after = [lags(28 + 2 * number, 600) for number in range(11)]

    assert not judged([*samples, *after[:-1]]).is_persistent
    assert judged([*samples, *after]).is_persistent


def test_no_sample_at_all_is_no_decision() -> None:
    """A scaler started while the broker is down says so (the original said false, 0)."""
    chosen = rule()
    over = window(chosen)
    watched = over.watch(chosen)

    with pytest.raises(LagUnavailable):
        watched.decide(at(0))
    over.add(failed_sample(at(0), "refused"))
    with pytest.raises(LagUnavailable, match="refused"):
        watched.decide(at(0))


def test_lag_from_the_future_is_no_decision() -> None:
    """A clock set back by more than the longest gap makes the newest sample useless."""
    chosen = rule()
    over = window(chosen)
    watched = over.watch(chosen)
    over.add(lags(100, 600))

    with pytest.raises(LagUnavailable):
        watched.decide(at(94.9))


def test_lag_spread_evenly_persists_only_in_total() -> None:
    """24 x 400 records are 9,600, and no partition reaches 500: the original never saw them."""
    samples = [lags(2 * number, *[400] * 24) for number in range(11)]

    assert not judged(samples).is_persistent
    assert judged(samples, rule(lag_scope="total")).metric_value == 9600


def test_lag_that_moves_persists_only_in_total() -> None:
    """12,000 records that sit on another partition every 12 s."""
    samples = [
        lags(2 * number, *(12000 if number // 6 % 24 == place else 0 for place in range(24)))
        for number in range(36)
    ]

    assert not judged(samples).is_persistent
    assert judged(samples, rule(lag_scope="total")).is_persistent


def test_each_partition_has_its_own_stretch() -> None:
    """Partition 0 lags for 10 s, then partition 1 for 18 s: neither alone reaches 20 s."""
    samples = [
        lags(2 * number, 600 if number < 6 else 0, 600 if number >= 5 else 0)
        for number in range(15)
    ]

    assert not judged(samples).is_persistent
    assert judged(samples).stretch_partition == 1
    assert judged(samples).span_seconds == 18


def test_rules_with_different_thresholds_share_one_window() -> None:
    """One window, two objects: 600 records persist for a threshold of 500, not for 50,000."""
    low, high = rule(), rule(lag_threshold=50_000, sustain_seconds=50)
    over = window(low)
    first, second = over.watch(low), over.watch(high)
    for number in range(11):
        over.add(lags(2 * number, 600))

    assert first.decide(at(20)).is_active
    assert first.decide(at(20)).target == 500
    assert not second.decide(at(20)).is_active
    assert second.decide(at(20)).target == 50_000


def test_activation_needs_persistent_lag_above_its_own_limit() -> None:
    """600 persistent records do not activate an object whose activationLagThreshold is 600."""
    samples = [lags(2 * number, 600, 0) for number in range(11)]

    assert not judged(samples, rule(activation_lag_threshold=600)).is_active
    assert judged(samples, rule(activation_lag_threshold=600)).metric_value == 600
    assert judged(samples, rule(activation_lag_threshold=599)).is_active


def test_no_sustain_time_means_at_once() -> None:
    """With sustainSeconds 0 the first sample decides."""
    assert judged([lags(0, 600)], rule(sustain_seconds=0)).is_persistent
