"""lagMetric projected: rates of the backlog, and acting before the sustain time."""

import pytest
from tests.fakes.lag_samples import at, lags, offsets, rule, window

from lagbench.core.lag_scaler.lag_rule import Decision

# 40 s sustained at 2 s: rates over 5 intervals, 10 s; the window spans 58 s.
PROJECTED = {"lag_metric": "projected", "sustain_seconds": 40.0}


def decisions(each: list[int], **changes: object) -> list[Decision]:
    """Return the decision after each of the lags (partition 0 of 24), 2 s apart."""
    by = rule(**{**PROJECTED, **changes})
    over = window(by)
    watched = over.watch(by)
    result = []
    for number, lag in enumerate(each):
        over.add(lags(2 * number, lag, *[0] * 23))
        result.append(watched.decide(at(2 * number)))
    return result


def first_true(each: list[Decision]) -> int:
    """Return the seconds after which lag first counted."""
    return next(2 * n for n, one in enumerate(each) if one.is_persistent or one.is_early)


def test_lag_that_grows_counts_after_the_evidence_time() -> None:
    """300 records more each second: early after 10 s of evidence, not after 40 s."""
    growing = [0] * 10 + [600 * number for number in range(1, 30)]

    assert first_true(decisions(growing)) == 20 + 10
    assert first_true(decisions(growing, lag_metric="records")) == 20 + 40


def test_lag_that_will_be_drained_in_time_waits() -> None:
    """5,000 records that fall by 150 per second are below 500 within 30 s: never acted on."""
    draining = [0] * 5 + [max(0, 5000 - 300 * number) for number in range(30)]

    assert not any(one.is_early or one.is_persistent for one in decisions(draining))


def test_lag_that_falls_too_slowly_counts_early() -> None:
    """5,000 records that fall by 50 per second are still 3,000 after the sustain time."""
    slow = [5000 - 100 * number for number in range(10)]

    assert first_true(decisions(slow)) == 10


def test_a_burst_shorter_than_the_evidence_is_ignored() -> None:
    """8 s of steep growth, then nothing: no action."""
    burst = [0] * 10 + [3000, 6000, 9000, 9000] + [0] * 10

    assert not any(one.is_early or one.is_persistent for one in decisions(burst))


def test_a_burst_that_the_usual_traffic_lets_drain_is_waited_out() -> None:
    """500/s too many for 12 s: at the usual in-rate that is drained before 40 s."""
    by = rule(**PROJECTED, lag_scope="total")
    over = window(by)
    watched = over.watch(by)
    end = committed = 0
    early = []
    for number in range(60):
        end += 3000 if 30 <= number < 36 else 800  # 1,500/s for 12 s, else 400/s
        committed = min(end, committed + 2000)  # 1,000/s
        over.add(offsets(2 * number, [end], [committed]))
        decision = watched.decide(at(2 * number))
        early.append(decision.is_early or decision.is_persistent)

    assert not any(early)


def test_a_step_that_stays_counts_after_the_evidence_time() -> None:
    """4,000/s at 1,000/s: after 10 s the backlog is larger than the usual 400/s would let drain."""
    by = rule(**PROJECTED, lag_scope="total")
    over = window(by)
    watched = over.watch(by)
    end = committed = 0
    early = []
    for number in range(60):
        end += 8000 if number >= 30 else 800  # 4,000/s, else 400/s
        committed = min(end, committed + 2000)
        over.add(offsets(2 * number, [end], [committed]))
        early.append(watched.decide(at(2 * number)).is_early)

    assert early.index(True) == 30 + 5


def test_an_early_stretch_counts_until_it_ends() -> None:
    """The pods that it asked for drain the backlog: that takes nothing back before it is gone."""
    up = [600 * number for number in range(1, 11)]
    down = [6000 - 700 * number for number in range(1, 8)]

    got = decisions([*up, *down, 400])

    assert all(one.is_early for one in got[6:-1])
    assert not got[-1].is_early
    assert got[-1].metric_value == 0


def test_the_metric_is_the_lag_at_the_end_of_the_next_window() -> None:
    """6,000 records growing by 300 per second are 23,400 after 58 s; shrinking ones stay."""
    up = decisions([600 * number for number in range(1, 11)], lag_threshold=1000)[-1]
    down = decisions([9000 - 10 * number for number in range(25)])[-1]

    assert up.uncapped_metric == pytest.approx(6000 + 300 * 58)
    assert up.metric_value == pytest.approx(23_400)
    assert down.metric_value == 9000 - 240


def test_the_rates_are_reported() -> None:
    """1,000 records per second come in, 700 go out: 300 more each second."""
    growth = decisions([600 * number for number in range(1, 11)])[-1].growth

    assert growth is not None
    assert growth.in_per_second == pytest.approx(24_000)  # 24 partitions grow by 1,000 each
    assert growth.per_second == pytest.approx(300)
    assert growth.over_seconds == 10


def test_without_samples_for_rates_nothing_is_projected() -> None:
    """Five samples are four intervals: the metric would be the lag itself."""
    got = decisions([600, 1200, 1800, 2400, 3000])[-1]

    assert got.growth is None
    assert got.uncapped_metric == 3000
    assert not got.is_early


def test_total_scope_projects_the_total() -> None:
    """Lag spread over 24 partitions grows only in total."""
    by = rule(**PROJECTED, lag_scope="total")
    over = window(by)
    watched = over.watch(by)
    for number in range(8):
        over.add(lags(2 * number, *[30 * number + 30] * 24))

    assert watched.decide(at(14)).is_early
