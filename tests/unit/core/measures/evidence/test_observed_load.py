"""The load of an observed group and the rate of its pods, from offsets."""

from __future__ import annotations

import pytest

from lagbench.core.measures.evidence.observed_load import observed_pod_rate, observed_rates
from lagbench.core.measures.evidence.series import LagSeries, lag_series
from lagbench.core.telemetry.recorder import GroupSample

SECOND = 1_000_000_000


def _series(ends: list[int], commits: list[int | None]) -> LagSeries:
    at = [second * SECOND for second in range(len(ends))]
    return lag_series(at, [0] * len(ends), ends, commits, first_partitions=1)


def _group(seconds: int, members: int = 2) -> list[GroupSample]:
    return [
        GroupSample(
            at=second * SECOND,
            source="o",
            state="stable",
            members=members,
            members_without_partitions=0,
        )
        for second in range(seconds)
    ]


def test_the_load_is_what_the_log_took() -> None:
    """A step in the growth of the end offset is a step in the load; the last row ends it."""
    ends = [1000 + 100 * second for second in range(11)]
    ends += [ends[-1] + 500 * (second + 1) for second in range(10)]
    lag = _series(ends, [0] * len(ends))
    rates = observed_rates(lag, from_at=0, until_at=20 * SECOND)
    assert rates == [(0, 100), (5, 100), (10, 500), (15, 500), (20, 0)]


def test_the_load_is_not_known_from_one_sample() -> None:
    """A single reading shows no growth."""
    assert observed_rates(_series([5], [0]), from_at=0, until_at=SECOND) == []


def test_a_recreated_topic_has_no_negative_load() -> None:
    """The end offset falls to 0: the load before and after the fall counts, the fall itself not."""
    ends = [10_000 + 100 * second for second in range(11)]
    ends += [200 * second for second in range(10)]
    rates = observed_rates(_series(ends, [0] * 21), from_at=0, until_at=20 * SECOND)
    assert rates == [(0, 100), (5, 100), (10, 160), (15, 200), (20, 0)]


def test_a_pods_rate_does_not_reach_over_a_cut_log() -> None:
    """The committed offset falls with the end offset, and the rate is that of the longer part."""
    ends = [90_000 + 300 * second for second in range(20)]
    ends += [60_000 + 300 * second for second in range(30)]
    commits: list[int | None] = [80_000 + 100 * second for second in range(20)]
    commits += [100 * second for second in range(30)]
    found = observed_pod_rate(_group(50, members=1), _series(ends, commits))
    assert found.per_second == pytest.approx(100)


def test_the_rate_of_a_pod_is_that_of_a_busy_member() -> None:
    """Two members that commit 200 a second while thousands wait do 100 a second each."""
    ends = [10_000 + 300 * second for second in range(30)]
    commits: list[int | None] = [200 * second for second in range(30)]
    found = observed_pod_rate(_group(30), _series(ends, commits))
    assert found.per_second == pytest.approx(100)
    assert "2 members" in found.source


def test_a_group_without_waiting_work_shows_no_rate() -> None:
    """A group that keeps up shows the load, not what it could do: there is no value."""
    ends = [300 * second for second in range(60)]
    commits: list[int | None] = [max(0, end - 100) for end in ends]
    assert observed_pod_rate(_group(60), _series(ends, commits)).per_second is None


def test_commits_of_an_idle_group_are_not_taken_for_a_busy_one() -> None:
    """The saw of a commit in five seconds has five seconds of lag at its top and none after it."""
    ends = [100 * second for second in range(60)]
    commits: list[int | None] = [100 * (second // 5) * 5 for second in range(60)]
    assert observed_pod_rate(_group(60), _series(ends, commits)).per_second is None


def test_a_busy_stretch_is_found_beside_an_idle_one() -> None:
    """Only the seconds in which work waited count."""
    commits: list[int | None] = [50 * second for second in range(30)]
    ends = [int(c or 0) + 10 for c in commits]
    for second in range(30):
        commits.append(1450 + 200 * (second + 1))
        ends.append(30_000)
    found = observed_pod_rate(_group(60, members=1), _series(ends, commits))
    assert found.per_second == pytest.approx(200, rel=0.05)
