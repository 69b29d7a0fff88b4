"""lagMetric seconds: the age of the oldest message that waits."""

import pytest
from tests.fakes.lag_samples import at, judged, offsets, rule, window

from lagbench.core.lag_scaler.lag_metadata import InvalidMetadata, parse_lag_settings
from lagbench.core.lag_scaler.lag_source import GroupSample

IN_SECONDS = {"lag_metric": "seconds", "lag_threshold": 10}


def steady(count: int, *, behind: int) -> list[GroupSample]:
    """Return samples of 100 records per second, the commit ``behind`` records late."""
    ends = [10_000 + 200 * number for number in range(count)]
    return [offsets(2 * n, [end], [end - behind]) for n, end in enumerate(ends)]


def age_of(samples: list[GroupSample]) -> float:
    """Return the age at the newest sample."""
    age_ns = judged(samples, rule(**IN_SECONDS)).figures.oldest_age_ns
    assert age_ns is not None
    return age_ns / 1e9


@pytest.mark.parametrize("behind", [0, 1, 250, 1000, 1999])
def test_the_age_is_when_the_committed_offset_was_the_end(behind: int) -> None:
    """At 100 records per second, 250 records behind are 2.5 s: linear between two samples."""
    assert age_of(steady(15, behind=behind)) == pytest.approx(behind / 100, abs=1e-6)


def test_what_is_older_than_the_window_is_at_least_that_old() -> None:
    """5 samples span 8 s; a commit below all of them says "at least 8 s"."""
    decision = judged(steady(5, behind=5000), rule(**IN_SECONDS))

    assert decision.figures.oldest_age_ns == 8_000_000_000
    assert decision.figures.is_age_a_bound


def test_the_oldest_partition_counts() -> None:
    """Partition 1 has waited since 4 s, partition 0 since 8 s."""
    samples = [
        offsets(2 * n, [100 * (n + 1), 100 * (n + 1)], [min(100 * (n + 1), 500), 300])
        for n in range(6)
    ]

    assert age_of(samples) == pytest.approx(6.0)


def test_a_message_after_a_quiet_time_is_not_as_old_as_the_quiet() -> None:
    """100 s without a message and then one: it is at most one interval old."""
    quiet = [offsets(2 * number, [50], [50]) for number in range(28)]

    assert age_of([*quiet, offsets(56, [51], [50])]) == pytest.approx(2.0)


def test_nothing_waiting_has_no_age() -> None:
    """Commits at the end: 0, and neither an age nor a bound."""
    decision = judged(steady(5, behind=0), rule(**IN_SECONDS))

    assert (decision.figures.oldest_age_ns, decision.figures.is_age_a_bound) == (0, False)


def test_the_rule_and_the_metric_are_in_seconds() -> None:
    """12 s behind for 20 s, threshold 10 s: persistent; the metric is the age over 24 partitions.

    By AverageValue that is one replica for each 10 s of age.
    """
    samples = [
        offsets(2 * n, [10_000 + 200 * n] * 24, [10_000 + 200 * n - 1200] * 24) for n in range(20)
    ]

    decision = judged(samples, rule(**IN_SECONDS))

    assert decision.is_persistent
    assert decision.metric_value == pytest.approx(12.0)
    assert decision.target == 10


def test_many_records_that_are_young_are_no_lag_in_seconds() -> None:
    """1,000,000 records written within the last second do not count as late."""
    samples = [offsets(2 * n, [10**6 * n], [max(0, 10**6 * (n - 1))]) for n in range(20)]

    assert not judged(samples, rule(**IN_SECONDS)).is_persistent


def test_an_age_limit_beyond_the_window_is_refused() -> None:
    """The age is known only within the window: a higher limit would never be reached."""
    named = {"bootstrapServers": "b:9092", "topic": "t", "consumerGroup": "g"}

    with pytest.raises(InvalidMetadata, match="280"):
        parse_lag_settings({**named, "lagMetric": "seconds", "lagThreshold": "281"})
    assert parse_lag_settings({**named, "lagMetric": "seconds", "lagThreshold": "280"})


def test_ages_look_back_over_the_rules_own_window() -> None:
    """A neighbour with a longer window does not change an object's figures."""
    short = rule(**IN_SECONDS, window_size=12)
    over = window(short)
    over.watch(rule(window_size=30))
    watched = over.watch(short)
    for sample in steady(30, behind=9000):
        over.add(sample)

    assert watched.decide(at(58)).figures.oldest_age_ns == 22_000_000_000


def test_records_that_were_cut_off_have_no_age() -> None:
    """The end went 1000, 1200, 1400 and back to 1100: offset 1050 was written after 1 s."""
    ends = [1000, 1200, 1400, 1100]

    age = age_of([offsets(2 * n, [end], [min(end, 1050)]) for n, end in enumerate(ends)])

    assert age == pytest.approx(5.0)
