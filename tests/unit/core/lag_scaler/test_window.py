"""A window of samples: partitions that come, offsets that go back, rules that come and go."""

import numpy as np
import pytest
from tests.fakes.lag_samples import at, judged, lags, offsets, rule, window

from lagbench.core.lag_scaler.lag_rule import LagRule
from lagbench.core.lag_scaler.lag_source import GroupSample
from lagbench.core.lag_scaler.lag_window import GroupWindow


def test_new_partitions_leave_the_stretches_of_the_others() -> None:
    """A topic grows from 1 to 3 partitions in the middle of a stretch."""
    samples = [lags(2 * number, 600) for number in range(6)]
    grown = [lags(2 * number, 600, 0, 0) for number in range(6, 11)]

    decision = judged([*samples, *grown])

    assert decision.is_persistent
    assert decision.figures.partitions == 3


def test_a_partition_is_known_by_its_number() -> None:
    """Partitions 0 and 2 are read, later 1 as well: the stretch of 2 stays its own."""
    samples = [lags(2 * number, 0, 600, partitions=[0, 2]) for number in range(6)]
    more = [lags(2 * number, 0, 600, 0, partitions=[0, 1, 2]) for number in range(6, 11)]

    decision = judged([*samples, *more])

    assert decision.stretch_partition == 1
    assert decision.span_seconds == 8


def test_an_end_that_goes_back_does_not_end_a_stretch() -> None:
    """A failover cut off 50 records; 600 still wait, and did all the time."""
    samples = [offsets(2 * number, [5000], [4400]) for number in range(6)]
    after = [offsets(2 * number, [4950], [4350]) for number in range(6, 11)]

    assert judged([*samples, *after]).is_persistent


def test_a_topic_made_anew_forgets_its_log_start() -> None:
    """The old log began at 900; of the new one all 200 records can be read."""
    chosen = rule(offset_reset_policy="earliest")
    old = offsets(0, [1000], [-1], earliest=[900])
    new = offsets(2, [200], [-1], earliest=[0])

    assert judged([old, new], chosen).figures.total_lag == 200


def test_a_sample_that_is_not_newer_is_dropped() -> None:
    """The same instant twice, or one before: nothing changes."""
    over = window()
    watched = over.watch(rule())
    over.add(lags(10, 600))
    decision = watched.decide(at(10))

    assert not over.add(lags(10, 0))
    assert not over.add(lags(8, 0))
    assert watched.decide(at(10)) is decision
    assert "not newer" in over.last_trouble()


def test_a_clock_set_back_starts_the_window_anew() -> None:
    """An hour back: what was sampled before cannot be put in order with what comes now."""
    over = window()
    watched = over.watch(rule())
    for number in range(11):
        over.add(lags(3600 + 2 * number, 600))

    assert over.add(lags(0, 600))
    assert not watched.decide(at(0)).is_persistent
    assert watched.decide(at(0)).figures.samples == 1


@pytest.mark.parametrize(
    ("sample", "trouble"),
    [
        (offsets(0, [], []), "no partition"),
        (offsets(0, [5, -1], [0, 0]), "partition 1"),
        (offsets(0, [5, 5], [0, 0], partitions=[1, 0]), "ascending"),
        (offsets(0, [5, 5], [0]), "length"),
    ],
)
def test_a_malformed_sample_is_a_gap(sample: GroupSample, trouble: str) -> None:
    """Missing is not zero: the whole sample is rejected, and why is kept."""
    over = window()

    assert not over.add(sample)
    assert trouble in over.last_trouble()
    assert over.newest_at_ns is None


def test_equal_rules_are_evaluated_once() -> None:
    """Two objects with the same rule share one evaluation; forgetting it drops it."""
    over = window()

    assert over.watch(rule()) is over.watch(rule())
    over.forget(rule())
    over.forget(rule())
    assert over.rules == ()


def test_forgetting_one_rule_leaves_the_others() -> None:
    """Of three rules on the same values the middle one goes."""
    rules = [rule(lag_threshold=limit) for limit in (100, 200, 300)]
    over = window()
    for one in rules:
        over.watch(one)
    for number in range(6):
        over.add(lags(2 * number, 250))

    over.forget(rules[1])
    for number in range(6, 11):
        over.add(lags(2 * number, 250))

    assert over.watch(rules[0]).decide(at(20)).is_persistent
    assert not over.watch(rules[2]).decide(at(20)).is_persistent


def test_a_rule_of_another_interval_is_refused() -> None:
    """Its gaps and its window would be measured wrongly."""
    with pytest.raises(ValueError, match="window of 2"):
        window().watch(rule(sampling_interval_seconds=3))


def test_the_samples_kept_are_bounded() -> None:
    """1,000 samples, windows of 30 and 12: 30 are kept; without the longer one, 12."""
    over = window()
    over.watch(rule())
    over.watch(rule(window_size=12))
    for number in range(1000):
        over.add(lags(2 * number, 600))

    assert len(over.history) == 30
    over.forget(rule())
    assert len(over.history) == 12
    assert over.history.times().tolist() == [at(2 * number) for number in range(988, 1000)]


def test_a_call_computes_nothing() -> None:
    """The decision is the same object from one sample to the next, whatever the partitions."""
    over = GroupWindow("big", 2.0)
    watched = over.watch(rule(window_size=2000))
    for number in range(3):
        over.add(lags(2 * number, *np.arange(2400).tolist()))

    assert watched.decide(at(4)) is watched.decide(at(5))


def test_the_oldest_sample_may_leave_a_stretch_that_goes_on() -> None:
    """A stretch of 200 s in a window of 30 samples at 2 s: its start is remembered."""
    assert judged([lags(2 * number, 600) for number in range(101)]).span_seconds == 200


def test_a_rule_is_hashable_and_free_of_secrets() -> None:
    """It is a key, and it is written into snapshots."""
    assert hash(LagRule()) == hash(LagRule())
    assert not {"password", "username", "bootstrap_servers"} & set(LagRule.model_fields)


def test_a_rule_that_comes_after_a_gap_sees_only_what_came_since() -> None:
    """20 s of lag, 8 s without a sample, 10 s of lag: a new rule has a stretch of 10 s."""
    over = window()
    over.watch(rule())
    for seconds in [*range(0, 21, 2), *range(28, 39, 2)]:
        over.add(lags(seconds, 600))

    late = over.watch(rule(lag_threshold=400)).decide(at(38))

    assert late.span_seconds == 10
    assert not late.is_persistent
