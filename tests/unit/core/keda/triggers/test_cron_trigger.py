"""The cron trigger: its name on the HPA, what KEDA rejects, and when it is inside its hours."""

from datetime import UTC, datetime, timedelta

import pytest

from lagbench.core.keda.refusals import TriggerRefused
from lagbench.core.keda.triggers.cron import CronTrigger, parse_cron_trigger

OFFICE = {
    "timezone": "Europe/London",
    "start": "0 8 * * 1-5",
    "end": "0 18 * * 1-5",
    "desiredReplicas": "5",
}
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def cron(**changes: str) -> CronTrigger:
    """Return the office hours with some parameters changed."""
    return parse_cron_trigger({**OFFICE, **changes})


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"start": "0 0 * * *", "end": "0 20 * * *"}, "s0-cron-Europe-London-00xxx-020xxx"),
        (
            {"timezone": "Etc/UTC", "start": "*/5 8,9 ? * *", "end": "0 18 * * 1-5"},
            "s0-cron-Etc-UTC-xSl58Cm9Qmxx-018xx1-5",
        ),
    ],
)
def test_the_metrics_name_spells_the_schedules(changes: dict[str, str], name: str) -> None:
    """Blanks go, and the characters that a name may not hold are spelt out."""
    assert cron(**changes).metric_name(0) == name
    assert cron(**changes).target_milli == 1000


@pytest.mark.parametrize(
    "changes",
    [
        {"timezone": ""},
        {"end": "0 18 * *"},
        {"end": OFFICE["start"]},
        {"desiredReplicas": "0"},
        {"desiredReplicas": "null"},
        {"desiredReplicas": "true"},
        {"desiredReplicas": "fal"},
        {"desiredReplicas": "2.5"},
    ],
)
def test_what_keda_refuses(changes: dict[str, str]) -> None:
    """No zone, a wrong schedule, a window without a length, and what is no count of replicas."""
    with pytest.raises(TriggerRefused):
        cron(**changes)


@pytest.mark.parametrize(
    ("hour", "minute", "is_within"),
    [(7, 59, False), (8, 0, True), (12, 0, True), (17, 59, True), (18, 0, False), (23, 0, False)],
)
def test_inside_the_office_hours(hour: int, minute: int, is_within: bool) -> None:
    """The start is inside, the end is not."""
    at = MONDAY + timedelta(hours=hour, minutes=minute)

    assert cron().window_at(at).is_within == is_within


def test_hours_over_midnight_and_over_the_weekend() -> None:
    """A start later than the end spans the night; on Saturday the next start comes first."""
    night = cron(start="0 22 * * *", end="0 6 * * *")

    assert night.window_at(MONDAY + timedelta(hours=23)).is_within
    assert night.window_at(MONDAY + timedelta(hours=5)).is_within
    assert not night.window_at(MONDAY + timedelta(hours=12)).is_within
    assert not cron().window_at(MONDAY + timedelta(days=5, hours=12)).is_within


def test_the_hours_are_those_of_the_time_zone() -> None:
    """In July London is an hour ahead of UTC, so that the office opens at 07:00 UTC."""
    monday = datetime(2026, 7, 6, tzinfo=UTC)

    assert not cron().window_at(monday + timedelta(hours=6, minutes=59)).is_within
    assert cron().window_at(monday + timedelta(hours=7)).is_within


def test_a_schedule_that_never_comes() -> None:
    """Without an end the trigger is never inside, without a start always: as KEDA compares."""
    assert not cron(end="0 0 30 2 *").window_at(MONDAY).is_within
    assert cron(start="0 0 30 2 *").window_at(MONDAY).is_within


@pytest.mark.parametrize("zone", ["Mars/Base", "../etc/passwd"])
def test_a_wrong_time_zone_shows_at_the_first_look(zone: str) -> None:
    """Parsing takes any zone; reading the clock in it fails."""
    wrong = cron(timezone=zone)

    with pytest.raises(ValueError, match=zone):
        wrong.window_at(MONDAY)
