"""Gaps between readings."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lagbench.core.measures.evidence.in_force import TopicPartitions, topic_partitions
from lagbench.core.measures.evidence.lag_readings import (
    Gap,
    gaps_between,
    gaps_text,
    lag_series,
    telemetry_gaps,
)
from lagbench.core.measures.evidence.played_actions import HIDES, Hidden, PlayedAction
from lagbench.core.scenario.actions import GrowPartitions, KillPod
from lagbench.core.telemetry.records_of_recorder import LagSample, ReadGap

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("seconds", "is_gap"),
    [
        ([0, 1.3, 2, 3], False),  # jitter
        ([0, 2, 3], False),  # one reading lost
        ([0, 3.02], False),  # two lost
        ([0, 4], True),  # three lost
        ([0], True),  # none to the end
        ([3], False),
        ([], True),
    ],
)
def test_three_lost_readings_are_a_gap(seconds: list[float], *, is_gap: bool) -> None:
    """Two lost ones and their jitter are not; both ends of the period count."""
    instants = [round(second * SECOND) for second in seconds]

    assert bool(gaps_between(instants, 0, 4 * SECOND)) is is_gap


def test_a_gap_is_reported_with_its_length() -> None:
    """The longest gap, when it began, and how many more there are."""
    short, long = Gap(50 * SECOND, 54 * SECOND), Gap(70 * SECOND, 145 * SECOND)

    two, three = ((short, long), 10 * SECOND), ((short, long, short), None)
    found = [re.findall(r"[\d.]+", gaps_text("lag", *shown)) for shown in (two, three)]
    assert found == [["75.0", "60.0"], ["75.0", "2"]]
    assert gaps_text("lag", [], 0) == ""


def lag_sample(second: float) -> LagSample:
    """Return a reading of the recorder."""
    return LagSample(at=round(second * SECOND), source="recorder", partitions=[])


def read_gap(second: float) -> ReadGap:
    """Return a reading that failed."""
    return ReadGap(at=round(second * SECOND), source="recorder", what="lag", reason="broker away")


def test_failed_readings_close_together_are_one_gap() -> None:
    """Fails at 10, 11, 12 s and again at 20 s: two gaps of lag."""
    records = [read_gap(second) for second in (10, 11, 12, 20)]
    seen = [lag_sample(second) for second in range(30)]

    gaps = telemetry_gaps([*records, *seen], from_at=0, until_at=99 * SECOND)

    assert [(gap.what, gap.gap_seconds) for gap in gaps] == [("lag", 2.0), ("lag", 0.0)]
    assert gaps[0].reason == "broker away"


def test_a_silent_recorder_is_a_gap() -> None:
    """Nothing from 3 s to 13 s."""
    seen = [lag_sample(second) for second in (1, 2, 3, 13, 14)]

    gaps = telemetry_gaps(seen, from_at=0, until_at=99 * SECOND)

    assert [(gap.what, gap.gap_seconds) for gap in gaps] == [("recorder", 10.0)]


@pytest.mark.parametrize("seconds", [3.2, 3.6])
def test_each_gap_has_the_same_threshold(seconds: float) -> None:
    """3.2 s without a reading are no gap, in the report as for an SLO; 3.6 s are one in both."""
    seen = [lag_sample(second) for second in (0, seconds)]
    instants = [record.at for record in seen]

    reported = telemetry_gaps(seen, from_at=0, until_at=99 * SECOND)

    assert len(reported) == len(gaps_between(instants, 0, instants[-1])) == int(seconds > 3.5)


def test_gaps_outside_the_measurement_window_do_not_count() -> None:
    """The bench was being torn down."""
    assert telemetry_gaps([read_gap(50)], from_at=0, until_at=40 * SECOND) == ()


NS = 1_000_000_000

PLANNED = (
    KillPod(kind="kill_pod", at_seconds=1),
    GrowPartitions(kind="grow_partitions", at_seconds=10, partitions=4),
    GrowPartitions(kind="grow_partitions", at_seconds=20, partitions=8),
)


def played(problem: str = "") -> tuple[PlayedAction, ...]:
    """Return the actions with their stamps; the last growth may have failed."""
    return (
        PlayedAction(number=0, kind="kill_pod", started_at=NS, ended_at=2 * NS),
        PlayedAction(number=1, kind="grow_partitions", started_at=10 * NS, ended_at=11 * NS),
        PlayedAction(
            number=2, kind="grow_partitions", started_at=20 * NS, ended_at=21 * NS, problem=problem
        ),
    )


def test_new_partitions_count_from_the_end_of_their_action() -> None:
    """Until it has ended, they may be missing."""
    found = topic_partitions(2, PLANNED, played())

    assert [found.at(second * NS) for second in (0, 10, 11, 20, 21)] == [2, 2, 4, 4, 8]
    assert (found.at(None), found.last) == (2, 8)


def test_a_growth_that_was_not_played_adds_none() -> None:
    """The partitions stay those before it."""
    assert topic_partitions(2, PLANNED, played("failed")).last == 4
    assert topic_partitions(2, (), ()) == TopicPartitions(2)


def test_all_of_an_added_partition_waits_until_the_first_commit() -> None:
    """It begins at 0 and the group reads it from there; one of the start may hold any lag."""
    at = [NS, NS, 2 * NS, 2 * NS, 2 * NS, 3 * NS, 3 * NS, 3 * NS]
    partition = [0, 1, 0, 1, 2, 0, 1, 2]
    ends = [10, 10, 20, 20, 7, 30, 30, 9]
    commits = [5, None, 15, 20, None, 30, 30, 4]

    found = lag_series(at, partition, ends, commits, first_partitions=2)

    assert found.by_partition[:, 2].tolist() == [0.0, 7.0, 5.0]
    assert np.isnan(found.total[0])
    assert found.total[1:].tolist() == [12.0, 5.0]


def test_a_growth_hides_only_a_rebalance_in_which_nobody_joined_or_left() -> None:
    """Its targets are no pods, so a pod that joined or died in its window is not excused."""
    until_at = round((11 + HIDES["grow_partitions"].recovery_seconds) * NS)
    hidden = Hidden(
        [
            PlayedAction(
                number=0,
                kind="grow_partitions",
                targets=("events",),
                started_at=10 * NS,
                ended_at=11 * NS,
                hidden_until_at=until_at,
            )
        ]
    )

    assert hidden.by("rebalance", 15 * NS) is not None
    assert hidden.by("rebalance", 15 * NS, pods=["consumer-1"]) is None
    assert hidden.by("rebalance", until_at + 1) is None
    assert hidden.by("members", 15 * NS, count=1) is None
    assert hidden.by("backlog", 15 * NS) is None
