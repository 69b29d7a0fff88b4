"""A window of samples: what it takes, the rules that come and go, and its snapshot."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from tests.fakes.lag_samples import at, lags, offsets, rule, window

from lag_scaler.offsets import GroupSample
from lag_scaler.rule import LagUnavailable
from lag_scaler.state import SnapshotDiscarded, restore_window, save_window
from lag_scaler.window import GroupWindow

HELD = rule(scale_down_stabilization_seconds=60)


def test_a_sample_that_is_not_newer_is_dropped() -> None:
    """The same instant twice, or one before: nothing changes."""
    over = window()
    watched = over.watch(rule())
    over.add(lags(10, 600))
    decision = watched.decide(at(10))

    assert not over.add(lags(10, 0))
    assert not over.add(lags(8, 0))
    assert watched.decide(at(10)) is decision
    assert "not newer" in over.trouble


def test_a_clock_set_back_starts_the_window_anew() -> None:
    """What was sampled and held before cannot be put in order with what comes now."""
    over = window()
    watched, held = over.watch(rule()), over.watch(HELD)
    for number in range(11):
        over.add(lags(3600 + 2 * number, 600))

    assert over.add(lags(0, 600))
    assert not watched.decide(at(0)).is_persistent
    assert watched.decide(at(0)).figures.samples == 1
    assert held.decide(at(0)).metric_value == 0


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
    assert trouble in over.trouble
    assert over.newest_at_ns is None


@pytest.mark.parametrize(
    ("interval", "gap", "is_bridged"),
    [(0.25, 2.4, True), (0.25, 2.6, False), (4, 9.9, True), (4, 10.1, False)],
)
def test_a_gap_may_last_as_long_as_two_missed_samples_and_2_5_s(
    interval: float, gap: float, is_bridged: bool
) -> None:
    """A broker that is busy for two seconds ends no stretch and no decision."""
    chosen = rule(sampling_interval_seconds=interval)
    over = window(chosen)
    watched = over.watch(chosen)
    for seconds in (0, interval):
        over.add(lags(seconds, 600))
    next_at = interval + gap
    with nullcontext() if is_bridged else pytest.raises(LagUnavailable):
        watched.decide(at(next_at))
    over.add(lags(next_at, 600))

    assert watched.decide(at(next_at)).span_seconds == (next_at if is_bridged else 0)


def test_rules_come_and_go_on_their_own() -> None:
    """Equal rules share one evaluation; the samples kept are those of the longest window."""
    low, middle, high = (rule(lag_threshold=limit) for limit in (100, 200, 700))
    short = rule(window_size=12)
    over = window()
    assert over.watch(low) is over.watch(low)
    for one in (middle, high, short):
        over.watch(one)
    for number in range(40):
        over.add(lags(2 * number, 250))
        if number == 20:
            over.forget(middle)
            over.forget(middle)

    assert over.watch(low).decide(at(78)).is_persistent
    assert not over.watch(high).decide(at(78)).is_persistent
    assert len(over.history) == 30
    for one in (low, high):
        over.forget(one)
    assert list(over.watched) == [short]
    assert over.history.times.tolist() == [at(2 * number) for number in range(28, 40)]
    with pytest.raises(ValueError, match="window of 2"):
        over.watch(rule(sampling_interval_seconds=3))


def test_a_rule_that_comes_after_a_gap_sees_only_what_came_since() -> None:
    """20 s of lag, 8 s without a sample, 10 s of lag: a new rule has a stretch of 10 s."""
    over = window()
    over.watch(rule())
    for seconds in [*range(0, 21, 2), *range(28, 39, 2)]:
        over.add(lags(seconds, 600))

    assert over.watch(rule(lag_threshold=400)).decide(at(38)).span_seconds == 10


def lagging_window(samples: int) -> GroupWindow:
    """Return a window with 600 records of lag on each of its samples, 2 s apart."""
    over = window()
    for one in (rule(), HELD, rule(lag_metric="projected")):
        over.watch(one)
    for number in range(samples):
        over.add(lags(2 * number, 600, 0))
    return over


def restored(data: bytes, now_seconds: float) -> GroupWindow:
    """Return the window of a snapshot, read at an instant."""
    return restore_window(data, interval_seconds=2.0, now_ns=at(now_seconds))


def test_a_restart_goes_on_with_stretches_and_holds() -> None:
    """15 s into a stretch: persistent 20 s after lag on; what was held before stays held."""
    over = restored(save_window(lagging_window(8)), 16)
    watched = over.watch(rule())
    for number in range(8, 11):
        assert not watched.decide(at(2 * number - 1)).is_persistent
        over.add(lags(2 * number, 600, 0))
    assert watched.decide(at(20)).is_persistent

    before = lagging_window(12)
    after = restored(save_window(before), 23)
    assert list(after.watched) == list(before.watched)
    for one in before.watched:
        assert after.watch(one).decide(at(23)) == before.watch(one).decide(at(23))
    after.add(lags(24, 0, 0))
    assert after.watch(HELD).decide(at(24)).metric_value == 600
    assert after.watch(rule()).decide(at(24)).metric_value == 0
    late = restored(save_window(before), 26)
    late.add(lags(28, 600, 0))  # 6 s after the newest sample: a gap
    assert not late.watch(rule()).decide(at(28)).is_persistent


@pytest.mark.parametrize(("now", "reason"), [(27.1, r"5\.1 s"), (10, "future")])
def test_a_snapshot_of_another_time_is_discarded(now: float, reason: str) -> None:
    """Nothing in an old one holds any more; one from the future is of another clock."""
    with pytest.raises(SnapshotDiscarded, match=reason):
        restored(save_window(lagging_window(12)), now)


def test_no_cut_or_changed_snapshot_is_trusted() -> None:
    """Whatever byte is missing or changed, the snapshot is discarded, never misread."""
    data = save_window(lagging_window(12))
    changed = [bytes([*data[:n], data[n] ^ 0x55, *data[n + 1 :]]) for n in range(len(data))]
    for wrong in [*changed, b"", data[:5], data[:40]]:
        with pytest.raises(SnapshotDiscarded):
            restored(wrong, 22)


def test_snapshots_are_small_and_may_be_empty() -> None:
    """30 samples of 24 partitions take less than 4 KB."""
    over = window()
    over.watch(rule())
    assert list(restored(save_window(over), 0).watched) == list(over.watched)
    for number in range(40):
        over.add(lags(2 * number, *range(0, 2400, 100)))
    assert len(save_window(over)) < 4000


@pytest.mark.parametrize("scope", ["partition", "total"])
def test_a_rule_that_comes_late_sees_the_samples_kept(scope: str) -> None:
    """A rule added at the end has the stretch that it would have had from the beginning."""
    late = rule(lag_threshold=10, lag_scope=scope, sustain_seconds=10.0)
    first, second = window(late), window(late)
    first.watch(late)
    second.watch(rule(lag_threshold=3))

    for number, each in enumerate([(20, 0), (9, 2), (6, 6), (12, 0), (9, 9), (11, 0), (0, 15)]):
        sample = offsets(2.0 * number, [100, 100], [100 - one for one in each])
        first.add(sample)
        second.add(sample)
        assert second.watch(late.model_copy()).decide(at(2 * number)) == first.watch(late).decide(
            at(2 * number)
        )
        second.forget(late)
