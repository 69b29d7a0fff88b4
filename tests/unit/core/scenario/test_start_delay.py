"""The delay of a run's pods before they join."""

from __future__ import annotations

from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.scenario.start_delay import DEFAULT_START_SECONDS, StartDelay, start_delay


def test_a_pod_has_the_same_delay_in_every_run_of_a_seed() -> None:
    """The delay follows from mean, seed and the pod's number, and from nothing else."""
    drawn = [StartDelay(1.2, seed=7).of_pod(number) for number in range(40)]

    assert drawn == [StartDelay(1.2, seed=7).of_pod(number) for number in range(40)]
    assert drawn != [StartDelay(1.2, seed=8).of_pod(number) for number in range(40)]
    assert len(set(drawn)) == 40


def test_delays_lie_around_their_mean() -> None:
    """They fill the mean +- a quarter of it evenly."""
    drawn = [StartDelay(2.0, seed=3).of_pod(number) for number in range(4000)]

    assert 1.5 <= min(drawn) < 1.51
    assert 2.49 < max(drawn) <= 2.5
    assert abs(sum(drawn) / len(drawn) - 2.0) < 0.02


def test_a_cluster_delays_only_when_it_is_asked_to() -> None:
    """On the embedded bench 1.2 s by default; elsewhere pods take what they take."""
    asked = ConsumerSettings(start_seconds=20)

    assert start_delay(ConsumerSettings(), 1, is_embedded=False) is None
    assert start_delay(ConsumerSettings(), 1, is_embedded=True) == StartDelay(1.2, 1)
    assert DEFAULT_START_SECONDS == 1.2
    assert start_delay(asked, 1, is_embedded=False) == StartDelay(20, 1)
    assert start_delay(ConsumerSettings(start_seconds=0), 1, is_embedded=True) == StartDelay(0, 1)
