"""Stabilisation: rising to the lowest, falling to the highest of the recent values."""

from tests.fakes.lag_samples import at, lags, rule, window

from lagbench.core.lag_scaler.lag_rule import Decision, LagRule


def decisions(each: list[int], by: LagRule) -> list[Decision]:
    """Return the decision after each of the lags, 2 s apart."""
    over = window(by)
    watched = over.watch(by)
    result = []
    for number, lag in enumerate(each):
        over.add(lags(2 * number, lag, 0, 0, 0))
        result.append(watched.decide(at(2 * number)))
    return result


def test_the_metric_is_held_after_persistence_ends() -> None:
    """With 6 s it keeps its highest for the three samples after the drain, and stays active."""
    by = rule(sustain_seconds=0, scale_down_stabilization_seconds=6)

    got = decisions([600, 800, 700, 0, 0, 0, 0, 0], by)

    assert [one.metric_value for one in got] == [600, 800, 800, 800, 800, 700, 0, 0]
    assert [one.is_active for one in got] == [True] * 6 + [False] * 2
    assert got[3].is_held
    assert not got[3].is_persistent


def test_the_metric_rises_to_the_lowest_of_the_last_seconds() -> None:
    """With 4 s a value counts once two more samples were as high; falling is at once."""
    by = rule(sustain_seconds=0, scale_up_stabilization_seconds=4)

    got = decisions([0, 900, 700, 800, 900, 0, 900], by)

    assert [one.metric_value for one in got] == [0, 0, 0, 700, 700, 0, 0]
    assert [one.is_active for one in got] == [False, False, False, True, True, False, False]


def test_without_stabilisation_the_metric_is_this_samples() -> None:
    """The defaults hold nothing: KEDA's HPA has windows of its own."""
    got = decisions([600, 0, 600], rule(sustain_seconds=0))

    assert [one.metric_value for one in got] == [600, 0, 600]


def test_a_clock_set_back_does_not_hold_the_future() -> None:
    """A held value ends with the clock that it was measured by."""
    by = rule(sustain_seconds=0, scale_down_stabilization_seconds=600)
    over = window(by)
    watched = over.watch(by)
    over.add(lags(5000, 900))

    over.add(lags(0, 0))

    assert watched.decide(at(0)).metric_value == 0
