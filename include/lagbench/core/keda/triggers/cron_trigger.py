"""The ``cron`` trigger: a number of replicas between two recurring instants, in one time zone.

A schedule has five fields. Unlike other crons it has no day 7 of the week and no ``@daily``; a day
matches on either of its two fields when both are restricted, and on both when one is ``*`` or
``?``. Not croniter 7.0: it moves an instant that the clock skips (02:30 in March) to the next hour
in place of leaving it out, takes a range of one (``3-3``) for any value, and rejects ``?`` for
minutes. The tests compare with it where both agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lag_scaler.keda_values import normalize_metric_name
from lagbench.core.keda.triggers.trigger_parameters import (
    Given,
    TriggerParameters,
    TriggerSource,
    TriggerType,
    read_values,
)

# How KEDA spells a schedule inside a metric's name.
_IN_A_NAME = (" ", ""), ("*", "x"), ("/", "Sl"), ("?", "Qm"), (",", "Cm")

_NEVER = timedelta(days=366)  # of schedules that do not come: look again in a year

_YEARS_AHEAD = 5  # a schedule without an instant in that time never comes (30 February)

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

# Lowest and highest value of each field, and its names.
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    (0, 6, {name: number for number, name in enumerate(_WEEKDAYS)}),
)


class ScheduleError(ValueError):
    """The text is not a schedule."""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The minutes, hours and days at which a schedule comes; ``zone`` empty: the caller's."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_any_day_enough: bool  # both day fields are restricted: one of them suffices
    zone: str = ""

    def next_after(self, at: datetime) -> datetime | None:
        """Return the first instant after ``at`` (aware); None when there is none for years."""
        local = at.astimezone(ZoneInfo(self.zone)) if self.zone else at
        day, last = local.date(), local.date().replace(year=local.year + _YEARS_AHEAD, month=12)
        while day <= last:
            if day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
                continue
            found = self._first_of_day(day, local) if self._is_day(day) else None
            if found is not None:
                return found.astimezone(at.tzinfo)
            day += timedelta(days=1)
        return None

    def _is_day(self, day: date) -> bool:
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_day or by_weekday if self.is_any_day_enough else by_day and by_weekday

    def _first_of_day(self, day: date, after: datetime) -> datetime | None:
        """Return the day's first instant after ``after``; skipped hours never come."""
        for hour in self.hours:
            if day == after.date() and hour < after.hour and not _repeats(day, hour, after):
                continue
            for fold in (0, 1) if _repeats(day, hour, after) else (0,):
                for minute in self.minutes:
                    found = datetime.combine(
                        day, time(hour, minute, fold=fold), tzinfo=after.tzinfo
                    )
                    # Two instants of one zone compare by the wall clock; here time counts.
                    instant = found.astimezone(UTC)
                    is_real = instant.astimezone(found.tzinfo).hour == hour
                    if is_real and instant > after.astimezone(UTC):
                        return found
        return None


def _repeats(day: date, hour: int, like: datetime) -> bool:
    """Return whether the clock shows this hour twice on that day."""
    first = datetime.combine(day, time(hour), tzinfo=like.tzinfo)
    second = first.replace(fold=1)
    return (second.utcoffset() or timedelta()) < (first.utcoffset() or timedelta())


@lru_cache(maxsize=256)
def parse_schedule(text: str) -> CronSchedule:
    """Return the schedule; ``ScheduleError`` says what is wrong with the text."""
    zone, pieces = "", text.split()
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone = pieces.pop(0).partition("=")[2]
        _zone(zone)
    if len(pieces) != len(_FIELDS):
        raise ScheduleError(f"{text!r} has {len(pieces)} fields, not minute hour day month weekday")
    read = [_field(piece, *bounds) for piece, bounds in zip(pieces, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (values for values, _ in read)
    return CronSchedule(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=weekdays,
        is_any_day_enough=not (read[2][1] or read[4][1]),
        zone=zone,
    )


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(f"unknown time zone {name}") from error


def _field(text: str, low: int, high: int, names: dict[str, int]) -> tuple[frozenset[int], bool]:
    """Return the values of one field, and whether it has a star."""
    values: set[int] = set()
    has_star = False
    for piece in filter(None, text.split(",")):
        span, *steps = piece.split("/")
        ends = span.split("-")
        is_star = ends[0] in {"*", "?"}
        numbers = [low, high] if is_star else [_number(end, names) for end in ends]
        step = _number(steps[0], {}) if steps else 1
        # "5/10" means from 5 to the end.
        start, end = numbers[0], high if steps and len(ends) == 1 else numbers[-1]
        is_one = len(ends) <= 2 and len(steps) <= 1 and step > 0
        if not (is_one and low <= start <= end <= high):
            raise ScheduleError(f"{piece!r} is not a range from {low} to {high}")
        values |= set(range(start, end + 1, step))
        has_star |= is_star and step <= 1
    return frozenset(values), has_star


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is None and not re.fullmatch(r"[+]?[0-9]+", text):
        raise ScheduleError(f"{text!r} is not a number")
    return int(text) if named is None else named


@dataclass(frozen=True, slots=True)
class CronWindow:
    """The state of a window at an instant: inside or not, and the next instant to check."""

    is_within: bool
    until: datetime


class CronTrigger(TriggerParameters):
    """Parameters of one cron trigger; whether the time zone exists is not known before a poll."""

    timezone: Annotated[str, Given()]
    start: Annotated[str, Given()]
    end: Annotated[str, Given()]
    desired_replicas: Annotated[int, Given()]

    def metric_name(self, trigger_index: int) -> str:
        """Return the name under which the HPA requests this trigger's metric."""
        name = f"cron-{self.timezone}-{_in_a_name(self.start)}-{_in_a_name(self.end)}"
        return f"s{trigger_index}-{normalize_metric_name(name)}"

    @property
    def target_milli(self) -> int:
        """Return the target in thousandths: the metric is a number of replicas."""
        return 1000

    def window_at(self, at: datetime) -> CronWindow:
        """Return where ``at`` (aware) lies; ``ValueError`` when the time zone does not exist.

        KEDA compares the next start with the next end: inside, the end comes first. An end that
        comes at the same instant as a start counts as inside until then. Neither changes before
        the earlier of them.
        """
        local = at.astimezone(_zone(self.timezone))
        start = parse_schedule(self.start).next_after(local)
        end = parse_schedule(self.end).next_after(local)
        until = min((one for one in (start, end) if one is not None), default=at + _NEVER)
        is_within = end is not None and (start is None or end <= start)
        return CronWindow(is_within, until)


def _in_a_name(schedule: str) -> str:
    for written, spelt in _IN_A_NAME:
        schedule = schedule.replace(written, spelt)
    return schedule


def parse_cron_trigger(source: TriggerSource) -> CronTrigger:
    """Return the trigger's parameters; ``TriggerRefused`` if KEDA's operator rejects one."""
    values, problems = read_values(CronTrigger, source)
    for name in ("start", "end"):
        try:
            parse_schedule(values.get(name, "* * * * *"))
        except ScheduleError as error:
            problems.append((name, str(error)))
    if not problems and values["start"] == values["end"]:
        problems.append(("end", "the same as start"))
    if not problems and not values["desired_replicas"]:
        problems.append(("desiredReplicas", "must not be 0"))
    if problems:
        raise source.refused(*problems[0])
    return CronTrigger.model_validate(values)


CRON = TriggerType(
    "cron",
    parse_cron_trigger,
    target_milli=lambda trigger: trigger.target_milli,
    may_be_cached=False,
    outage="none",
)
