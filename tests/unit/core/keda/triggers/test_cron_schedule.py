"""Cron schedules: what is one, and when it comes next, also where clocks are put back."""

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from lagbench.core.keda.triggers.cron_schedule import ScheduleError, parse_schedule

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty spec string"),
        ("0 0 8 * * *", "expected exactly 5 fields, found 6: [0 0 8 * * *]"),
        ("@daily", "parser does not accept descriptors: @daily"),
        ("61 8 * * *", "end of range (61) above maximum (59): 61"),
        ("0 8 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("0 8 * * 7", "end of range (7) above maximum (6): 7"),
        ("0 9-8 * * *", "beginning of range (9) beyond end of range (8): 9-8"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("*/5/5 * * * *", "too many slashes: */5/5"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("*/-5 * * * *", "negative number (-5) not allowed: -5"),
        ("TZ=Mars/Base 0 8 * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
    ],
)
def test_a_text_that_is_no_schedule_is_refused(text: str, said: str) -> None:
    """The message is the one that KEDA's parser gives."""
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(text)

    assert str(caught.value) == said


def random_schedule(source: random.Random) -> str:
    """Return five random fields: stars, steps, ranges, lists and numbers."""

    def one(low: int, high: int) -> str:
        first = source.randint(low, high - 1)
        last = source.randint(first + 1, high)  # croniter takes a range of one for "any"
        shapes = [
            "*",
            f"{first}",
            f"{first}-{last}",
            f"*/{source.randint(2, 9)}",
            f"{first}-{last}/{source.randint(1, 4)}",
            f"{first},{last}",
        ]
        return source.choice(shapes)

    return " ".join(one(*bounds) for bounds in ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6)))


def test_the_next_instant_is_what_another_reader_of_crons_finds() -> None:
    """Three hundred random schedules from random instants, in UTC, agree with croniter."""
    source = random.Random(7)
    compared = 0
    while compared < 300:
        text = random_schedule(source)
        days, weekdays = text.split()[2], text.split()[4]
        if "*/" in days + weekdays:
            continue  # readers of crons differ on whether a stepped star restricts the day
        start = MONDAY + timedelta(seconds=source.randint(0, 400 * 86400))

        found = parse_schedule(text).next_after(start)

        assert found == croniter(text, start).get_next(datetime), (text, start)
        compared += 1


def test_names_and_days_of_either_kind() -> None:
    """Months and weekdays have names; of two restricted day fields one is enough."""
    either = parse_schedule("0 8 13 * fri")
    named = parse_schedule("0 8 * FEB mon-tue")

    assert either.next_after(MONDAY) == datetime(2026, 1, 9, 8, tzinfo=UTC)
    assert either.next_after(datetime(2026, 1, 9, 8, tzinfo=UTC)) == datetime(
        2026, 1, 13, 8, tzinfo=UTC
    )
    assert named.next_after(MONDAY) == datetime(2026, 2, 2, 8, tzinfo=UTC)


def test_a_day_that_never_comes() -> None:
    """The 30th of February has no next instant."""
    assert parse_schedule("0 8 30 2 *").next_after(MONDAY) is None


def test_an_hour_that_the_clock_skips_does_not_come_that_day() -> None:
    """On 29 March 2026 Berlin has no 02:30: the next one is a day later."""
    before = datetime(2026, 3, 29, 0, 0, tzinfo=BERLIN)

    found = parse_schedule("30 2 * * *").next_after(before)

    assert found == datetime(2026, 3, 30, 2, 30, tzinfo=BERLIN)


def test_an_hour_that_the_clock_shows_twice_comes_twice() -> None:
    """On 25 October 2026 Berlin has 02:30 at 00:30 and at 01:30 UTC."""
    schedule = parse_schedule("30 2 * * *")

    first = schedule.next_after(datetime(2026, 10, 25, 0, 0, tzinfo=BERLIN))
    assert first is not None
    second = schedule.next_after(first)

    assert first.astimezone(UTC) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert second is not None
    assert second.astimezone(UTC) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


def test_a_schedule_can_carry_its_own_zone() -> None:
    """``CRON_TZ=`` before the fields overrides the zone of the instant."""
    found = parse_schedule("CRON_TZ=Asia/Tokyo 0 9 * * *").next_after(MONDAY)

    assert found == datetime(2026, 1, 6, 0, 0, tzinfo=UTC)
