"""The clocks of those who did the work."""

from __future__ import annotations

from collections.abc import Mapping

from lagbench.core.clocks import Clock, ClockSet, OffsetBound, clock_set
from lagbench.core.ownership.owners import clock_of, most_error_ns


def clocks_of(errors: Mapping[str, int]) -> ClockSet:
    """Return clocks of pods whose stamps are off by so many nanoseconds at most."""
    by_name = {
        pod: Clock(pod, OffsetBound(-error, error), is_steady=True, answers=1)
        for pod, error in errors.items()
    }
    return ClockSet(is_one_clock=False, by_name=by_name, name_of_pod={pod: pod for pod in errors})


def test_partitions_of_the_output_have_the_brokers_clock() -> None:
    """On a cluster a pod without a reading is not bounded; an output partition is no pod."""
    found = clock_set([], "kubernetes")

    broker = clock_of("output-3", found)
    assert broker is not None
    assert (broker.shift_ns, broker.error_ns) == (0, 0)
    assert clock_of("consumer-3", found) is None


def test_the_error_is_that_of_the_pods_that_are_compared() -> None:
    """Stamps of the broker have one clock, whatever is known of the clocks of other pods."""
    clocks = clocks_of({"a": 3, "b": 5})

    assert most_error_ns(["a", "b", "unknown"], clocks) == 10
    assert most_error_ns(["a"], clocks) == 6
    assert most_error_ns(["output-0", "output-1"], clocks) == 0
    assert most_error_ns(["a", "b"], clock_set([], "processes")) == 0
