"""Gaps between readings."""

import re

import pytest

from lagbench.core.measures.evidence.gaps import Gap, gaps_between, gaps_text, telemetry_gaps
from lagbench.core.telemetry.recorder import LagSample, ReadGap

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
