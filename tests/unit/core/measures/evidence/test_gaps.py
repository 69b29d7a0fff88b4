"""Gaps between readings."""

import re

import pytest

from lagbench.core.measures.evidence.gaps import Gap, gaps_between, gaps_text

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
