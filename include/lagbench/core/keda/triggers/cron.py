"""The ``cron`` trigger: a number of replicas between two recurring instants, in one time zone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lagbench.core.keda.refusals import TriggerRefused
from lagbench.core.keda.triggers.cron_schedule import ScheduleError, parse_schedule
from lagbench.core.keda.triggers.parameters import (
    ParameterReader,
    ParameterSources,
    normalize_metric_name,
)
from lagbench.core.keda.triggers.trigger_type import TriggerParameters, TriggerSource, TriggerType

# How KEDA spells a schedule inside a metric's name.
_IN_A_NAME = (" ", ""), ("*", "x"), ("/", "Sl"), ("?", "Qm"), (",", "Cm")
_NEVER = timedelta(days=366)  # of schedules that do not come: look again in a year


@dataclass(frozen=True, slots=True)
class CronWindow:
    """The state of a window at an instant: inside or not, and the next instant to check."""

    is_within: bool
    until: datetime


class CronTrigger(TriggerParameters):
    """Parameters of one cron trigger; whether the time zone exists is not known before a poll."""

    timezone: str
    start: str
    end: str
    desired_replicas: int

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
        try:
            zone = ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(
                f"unable to load timezone: unknown time zone {self.timezone}"
            ) from error
        local = at.astimezone(zone)
        start = parse_schedule(self.start).next_after(local)
        end = parse_schedule(self.end).next_after(local)
        until = min((one for one in (start, end) if one is not None), default=at + _NEVER)
        is_within = end is not None and (start is None or end <= start)
        return CronWindow(is_within, until)


def parse_cron_trigger(
    metadata: Mapping[str, str], *, where: str = "trigger", field: str = "metadata"
) -> CronTrigger:
    """Return the trigger's parameters; ``TriggerRefused`` with KEDA's message if rejected."""
    reader = ParameterReader(ParameterSources(metadata))
    only = ("metadata",)
    values = {
        "start": reader.required_text("start", order=only),
        "end": reader.required_text("end", order=only),
        "timezone": reader.required_text("timezone", order=only),
    }
    desired = reader.required_integer("desiredReplicas")
    problem = _problem(values["start"], values["end"], desired)
    errors = [*reader.errors, *([problem] if problem else [])]
    if errors:
        raise TriggerRefused(
            where=where,
            field=field,
            value=dict(metadata),
            keda_message="error parsing cron metadata: " + "\n".join(errors),
        )
    return CronTrigger(**values, desired_replicas=desired)


def _problem(start: str, end: str, desired: int) -> str | None:
    """Return the first rule of KEDA's validator that is broken, in its order."""
    for name, text in (("start", start), ("end", end)):
        problem = _schedule_problem(text)
        if problem is not None:
            return f"error parsing {name} schedule: {problem}"
    if start == end:
        return "start and end can not have exactly same time input"
    return None if desired else "no desiredReplicas specified"


def _schedule_problem(text: str) -> str | None:
    try:
        parse_schedule(text)
    except ScheduleError as error:
        return str(error)
    return None


def _in_a_name(schedule: str) -> str:
    for written, spelt in _IN_A_NAME:
        schedule = schedule.replace(written, spelt)
    return schedule


def _parse(source: TriggerSource) -> CronTrigger:
    return parse_cron_trigger(source.metadata, where=source.where, field=f"{source.field}.metadata")


CRON = TriggerType(
    "cron",
    _parse,
    target_milli=lambda trigger: trigger.target_milli,
    may_be_cached=False,
    outage="none",
)
