"""A window survives a restart, and a snapshot that cannot be trusted is discarded."""

import pytest
from tests.fakes.lag_samples import at, lags, rule, window

from lagbench.core.lag_scaler import lag_window
from lagbench.core.lag_scaler.lag_window import (
    GroupWindow,
    SnapshotDiscarded,
    restore_window,
    save_window,
)

HELD = rule(scale_down_stabilization_seconds=60)


def lagging_window(samples: int) -> GroupWindow:
    """Return a window with 600 records of lag on each of its samples, 2 s apart."""
    over = window()
    over.watch(rule())
    over.watch(HELD)
    over.watch(rule(lag_metric="projected"))
    for number in range(samples):
        over.add(lags(2 * number, 600, 0))
    return over


def restored(data: bytes, now_seconds: float) -> GroupWindow:
    """Return the window of a snapshot, read at an instant."""
    return restore_window(
        data, identity=window().identity, interval_seconds=2.0, now_ns=at(now_seconds)
    )


def test_a_restart_does_not_reset_the_sustain_clock() -> None:
    """A restart 15 s into a stretch: persistent 20 s after lag on (the original took 35 s)."""
    over = restored(save_window(lagging_window(8)), 16)
    watched = over.watch(rule())
    for number in range(8, 11):
        assert not watched.decide(at(2 * number - 1)).is_persistent
        over.add(lags(2 * number, 600, 0))

    assert watched.decide(at(20)).is_persistent


def test_decisions_are_the_same_right_after_a_restart() -> None:
    """All rules are watched again, with their stretches, holds and metrics."""
    before = lagging_window(12)
    after = restored(save_window(before), 23)

    assert after.rules == before.rules
    for rule_ in before.rules:
        assert after.watch(rule_).decide(at(23)) == before.watch(rule_).decide(at(23))


def test_a_hold_goes_on_after_a_restart() -> None:
    """Lag that persisted before the restart and is gone after it keeps the metric for 60 s."""
    over = restored(save_window(lagging_window(12)), 23)
    over.add(lags(24, 0, 0))

    assert over.watch(HELD).decide(at(24)).metric_value == 600
    assert over.watch(rule()).decide(at(24)).metric_value == 0


def test_a_gap_over_the_restart_ends_the_stretch() -> None:
    """The snapshot is 4 s old, the first sample comes after 6 s: more than 2.5 intervals."""
    over = restored(save_window(lagging_window(12)), 26)

    over.add(lags(28, 600, 0))

    assert not over.watch(rule()).decide(at(28)).is_persistent


def test_an_old_snapshot_is_discarded() -> None:
    """5.1 s after its newest sample, sampled every 2 s, nothing in it holds any more."""
    with pytest.raises(SnapshotDiscarded, match=r"5\.1 s"):
        restored(save_window(lagging_window(12)), 27.1)


def test_a_snapshot_from_the_future_is_discarded() -> None:
    """The clock was set back."""
    with pytest.raises(SnapshotDiscarded, match="future"):
        restored(save_window(lagging_window(12)), 10)


def test_a_snapshot_of_another_group_is_discarded() -> None:
    """Cluster, group, topic and interval are its identity."""
    data = save_window(lagging_window(12))

    with pytest.raises(SnapshotDiscarded, match="'other'"):
        restore_window(data, identity="other", interval_seconds=2.0, now_ns=at(22))
    with pytest.raises(SnapshotDiscarded):
        restore_window(data, identity=window().identity, interval_seconds=3.0, now_ns=at(22))


def test_a_snapshot_of_another_version_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content may mean something else."""
    data = save_window(lagging_window(12))
    monkeypatch.setattr(lag_window, "SNAPSHOT_VERSION", 99)

    with pytest.raises(SnapshotDiscarded, match="version 2"):
        restored(data, 22)


@pytest.mark.parametrize("length", [0, 5, 11, 40])
def test_a_snapshot_cut_short_is_discarded(length: int) -> None:
    """A write that was interrupted is seen by the checksum."""
    with pytest.raises(SnapshotDiscarded):
        restored(save_window(lagging_window(12))[:length], 22)


def test_no_changed_byte_is_trusted() -> None:
    """Whatever byte is changed, the snapshot is discarded, never misread."""
    data = save_window(lagging_window(12))
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x55
        with pytest.raises(SnapshotDiscarded):
            restored(bytes(changed), 22)


def test_an_empty_window_can_be_saved() -> None:
    """A server that stops before the first sample leaves a snapshot without samples."""
    over = window()
    over.watch(rule())

    assert restored(save_window(over), 0).rules == over.rules


def test_snapshots_are_small() -> None:
    """30 samples of 24 partitions and three rules take less than 4 KB."""
    over = window()
    over.watch(rule())
    for number in range(40):
        over.add(lags(2 * number, *range(0, 2400, 100)))

    assert len(save_window(over)) < 4000
