"""The wait of the first message after an idle stretch."""

import numpy as np

from lagbench.core.measures.evidence.series import RateSeries
from lagbench.core.measures.lag.idle_wait import IdleWait, idle_wait
from lagbench.core.scenario.profiles import Stage, StagesProfile
from lagbench.core.scenario.stream.profile import offered_load

SECOND = 1_000_000_000
START = 100 * SECOND


def load(*stages: tuple[float, float]) -> StagesProfile:
    """Return stages of (seconds, rate)."""
    return StagesProfile(
        kind="stages", stages=tuple(Stage(seconds=s, rate_per_second=r) for s, r in stages)
    )


def waited(profile: StagesProfile, done: dict[int, int], seconds: float) -> IdleWait | None:
    """Return the wait if the group did ``done`` (messages by bin of 0.1 s from the start)."""
    planned = offered_load(profile)
    bins = round(seconds * 10)
    offered, processed = np.zeros(bins, dtype=np.int64), np.zeros(bins, dtype=np.int64)
    for index in range(bins):
        edges = [round(edge * SECOND / 10) for edge in (index, index + 1)]
        offered[index] = planned.planned_count_at(edges[1]) - planned.planned_count_at(edges[0])
    for index, count in done.items():
        processed[index] = count
    return idle_wait(
        planned,
        RateSeries(START, offered, processed),
        stream_started_at=START,
        until_at=START + round(seconds * SECOND),
    )


def test_it_runs_from_the_planned_instant_to_the_first_work() -> None:
    """Due at 6.1 s (10/s from 6.0 s on), done in the bin that ends at 14.0 s: 7.9 s."""
    found = waited(load((1, 10), (5, 0), (9, 10)), {5: 10, 139: 1}, 15)

    assert found is not None
    assert (found.idle_seconds, found.reason) == (5, "")
    assert found.planned_at == START + round(6.1 * SECOND)
    assert found.seconds == 7.9


def test_work_that_was_left_hides_the_first_message() -> None:
    """What is done next may be older, so the wait is not known, and it is not zero."""
    found = waited(load((1, 10), (5, 0), (4, 10)), {5: 9, 70: 5}, 10)

    assert found is not None
    assert (found.seconds, found.reason.split()[0]) == (None, "1")


def test_the_longest_stretch_counts_and_an_unknown_one_is_not_hidden() -> None:
    """Of waits of 1 s and 3 s the second; if nothing is done after it, the wait is not known."""
    profile = load((1, 10), (5, 0), (1, 10), (5, 0), (6, 10))
    both = {5: 10, 70: 10, 150: 5}

    found = waited(profile, both, 18)
    assert found is not None
    assert found.seconds is not None
    assert round(found.seconds, 1) == 3.0

    unknown = waited(profile, {5: 10, 70: 10}, 18)
    assert unknown is not None
    assert unknown.seconds is None


def test_a_load_without_an_idle_stretch_has_none() -> None:
    """There is no such message."""
    assert waited(load((5, 10), (5, 20)), {5: 10}, 10) is None
