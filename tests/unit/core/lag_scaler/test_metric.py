"""The metric: caps by partitions, offsets without a commit, commits that do not move."""

import math

import pytest
from tests.fakes.lag_samples import at, judged, lags, offsets, rule, window

from lagbench.core.lag_scaler.lag_rule import LagRule, LagUnavailable
from lagbench.core.lag_scaler.lag_source import GroupSample

AT_ONCE = {"sustain_seconds": 0.0, "lag_threshold": 10}


def metric_of(*each: int, **changes: object) -> float:
    """Return the metric for these lags, without a sustain time, threshold 10."""
    return judged([lags(0, *each)], rule(**{**AT_ONCE, **changes})).metric_value


@pytest.mark.parametrize("total", [*range(10, 60), 10**5])
def test_the_cap_never_asks_for_more_replicas_than_partitions(total: int) -> None:
    """KEDA's cap lets 39 records on 3 partitions with threshold 10 ask for 4 replicas."""
    metric = metric_of(total, 0, 0)

    assert math.ceil(metric / 10) == min(math.ceil(total / 10), 3)


def test_idle_consumers_lift_the_cap() -> None:
    """With allowIdleConsumers the lag is served as it is."""
    assert metric_of(500, 0, allow_idle_consumers=True) == 500


def test_the_cap_can_count_only_partitions_with_lag() -> None:
    """12,000 records on one of 24 partitions are work for one replica."""
    limited = metric_of(12_000, *[0] * 23, limit_to_partitions_with_lag=True)

    assert limited == 10
    assert metric_of(50, 50, 0, limit_to_partitions_with_lag=True) == 20


@pytest.mark.parametrize(
    ("total", "metric"), [(10, 10), (11, 20), (20, 20), (21, 50), (51, 100), (500, 100)]
)
def test_even_distribution_goes_by_divisors_of_the_partitions(total: int, metric: int) -> None:
    """10 partitions are divided evenly by 1, 2, 5 or 10 replicas."""
    each = [total, *[0] * 9]

    assert metric_of(*each, ensure_even_distribution_of_partitions=True) == metric


def test_limited_partitions_are_the_only_ones_that_count() -> None:
    """PartitionLimitation 1 and 2 of four: their lag, their cap."""
    chosen = rule(**AT_ONCE, partition_limitation=(1, 2))

    assert judged([lags(0, 99, 15, 0, 99)], chosen).metric_value == 15
    assert judged([lags(0, 99, 15, 99, 99)], chosen).metric_value == 20


def test_a_limitation_to_other_partitions_is_no_decision() -> None:
    """None of the topic's partitions counts: an error, as in KEDA, not a lag of 0."""
    with pytest.raises(LagUnavailable, match="partitionLimitation"):
        judged([lags(0, 99)], rule(partition_limitation=(7,)))


def fresh_group(*, earliest: list[int] | None) -> GroupSample:
    """Return a sample of a group that never committed: 1,000 records were ever written."""
    return offsets(0, [1000], [-1], earliest=earliest)


def test_an_uncommitted_partition_read_from_the_end_lags_by_one() -> None:
    """Policy latest: one record, as in KEDA, never the 1,000 of the original."""
    assert judged([fresh_group(earliest=[0])]).figures.total_lag == 1


def test_an_uncommitted_partition_may_count_as_nothing() -> None:
    """scaleToZeroOnInvalidOffset: no lag, whatever the policy."""
    for policy in ("latest", "earliest"):
        chosen = rule(scale_to_zero_on_invalid_offset=True, offset_reset_policy=policy)

        assert judged([fresh_group(earliest=[0])], chosen).figures.total_lag == 0


@pytest.mark.parametrize(("start", "lag"), [(0, 1000), (400, 600), (1000, 0)])
def test_an_uncommitted_partition_read_from_the_start_lags_by_what_is_left(
    start: int, lag: int
) -> None:
    """Policy earliest counts from the log start: nothing to read is no lag."""
    chosen = rule(offset_reset_policy="earliest")

    assert judged([fresh_group(earliest=[start])], chosen).figures.total_lag == lag


@pytest.mark.parametrize("earliest", [None, [-1]])
def test_an_unknown_log_start_is_no_decision(earliest: list[int] | None) -> None:
    """Missing is not zero, and not 1,000 either."""
    with pytest.raises(LagUnavailable, match="partition 0"):
        judged([fresh_group(earliest=earliest)], rule(offset_reset_policy="earliest"))


def test_a_log_start_once_known_serves_later_samples() -> None:
    """It only grows: an old one bounds what can be read, and expired records stay out."""
    chosen = rule(offset_reset_policy="earliest")
    known = offsets(0, [1000], [-1], earliest=[900])
    later = offsets(2, [1500], [-1])

    assert judged([known, later], chosen).figures.total_lag == 600


def test_a_commit_below_the_log_start_counts_from_the_start() -> None:
    """Records that expired unread are no backlog."""
    assert judged([offsets(0, [2000], [500], earliest=[1500])]).figures.total_lag == 500


def test_librdkafkas_invalid_offset_is_no_commit() -> None:
    """-1001 reads as -1."""
    assert judged([offsets(0, [1000], [-1001])]).figures.without_commit == 1


def test_a_commit_ahead_of_the_end_is_no_lag() -> None:
    """The two are read one after the other; lag is never below zero."""
    assert judged([offsets(0, [100], [103])]).figures.total_lag == 0


def stuck_samples() -> list[GroupSample]:
    """Return samples in which partition 0 never commits and partition 1 does."""
    return [offsets(2 * n, [5000, 9000], [1000, 8000 + n]) for n in range(11)]


def test_commits_that_do_not_move_are_left_out_of_the_metric() -> None:
    """excludePersistentLag: more replicas do not help a stuck consumer, but it stays active."""
    decision = judged(stuck_samples(), rule(exclude_persistent_lag=True))

    assert decision.metric_value == 990
    assert decision.figures.total_lag == 4990
    assert decision.is_active


def test_a_partition_is_stuck_between_samples_and_not_between_polls() -> None:
    """Asking twice between two samples changes nothing (KEDA's memory moved on every poll)."""
    chosen = rule(exclude_persistent_lag=True)
    over = window(chosen)
    watched = over.watch(chosen)
    for number in range(11):
        over.add(offsets(2 * number, [5000], [1000 + number]))

    asked = [watched.decide(at(20 + part / 10)).metric_value for part in range(9)]

    assert asked == [500.0] * 9


def test_the_defaults_are_those_of_the_readmes() -> None:
    """500 records for 120 s, 30 samples at 10 s, any partition, no stabilisation."""
    usual = LagRule()

    assert (usual.lag_threshold, usual.sustain_seconds) == (500, 120)
    assert (usual.sampling_interval_seconds, usual.window_size) == (10, 30)
    assert (usual.lag_scope, usual.lag_metric) == ("partition", "records")


@pytest.mark.parametrize(("start", "lag"), [(0, 1000), (1000, 0)])
def test_a_new_group_of_iggy_wakes_for_a_backlog_and_for_nothing_else(start: int, lag: int) -> None:
    """Its scaleToZeroOnInvalidOffset is zero only where nothing waits, whatever the policy."""
    for policy in ("latest", "earliest"):
        chosen = rule(
            scale_to_zero_on_invalid_offset=True,
            wakes_for_backlog=True,
            offset_reset_policy=policy,
            sustain_seconds=0,
        )
        decision = judged([fresh_group(earliest=[start])], chosen)

        assert decision.figures.total_lag == lag
        assert decision.is_active == (lag > 0)
