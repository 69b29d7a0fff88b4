"""Stretches without readings."""

import pytest

from lagbench.core.measures.evidence.unseen import Unseen, unseen_between, unseen_text

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("seconds", "is_blind"),
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
def test_three_lost_readings_are_a_blind_stretch(seconds: list[float], *, is_blind: bool) -> None:
    """Two lost ones and their jitter are not; both ends of the stretch count."""
    instants = [round(second * SECOND) for second in seconds]

    assert bool(unseen_between(instants, 0, 4 * SECOND)) is is_blind


def test_what_was_not_seen_is_told_with_its_length() -> None:
    """The longest stretch, when it began, and how many more there are."""
    short, long = Unseen(50 * SECOND, 54 * SECOND), Unseen(70 * SECOND, 145 * SECOND)

    assert unseen_text("lag", [short, long], 10 * SECOND) == (
        "lag not seen for 75.0 s from +60.0 s and once more"
    )
    assert unseen_text("lag", [short, long, short], None) == (
        "lag not seen for 75.0 s and in 2 more stretches"
    )
    assert unseen_text("lag", [], 0) == ""
