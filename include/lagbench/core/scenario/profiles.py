"""Define the traffic profiles of a scenario: the offered rate over time."""

from __future__ import annotations

import csv
import json
import math
import re
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from lagbench.core.scenario.conf_limits import Reach, StrictModel
from lagbench.errors import WrongInput

LONGEST_SECONDS = 86_400
"""Of a stream, and of each of its periods."""
MOST_PROFILE_CHARACTERS = 125_000
"""Of a profile as text: on Linux no variable of a program is longer than 128 KiB, and the producer
gets its other settings in the same one."""
MOST_PER_SECOND = 1_000_000
"""The highest rate of a stream; one producer sends a third of it."""


class SteadyProfile(StrictModel):
    """One rate all the time."""

    kind: Literal["steady"]
    rate_per_second: float = Field(gt=0, le=MOST_PER_SECOND)
    duration_seconds: float = Field(gt=0, le=LONGEST_SECONDS)


class _SpikeProfile(StrictModel):
    """A base rate with spikes of ``spike_mult`` times that rate."""

    rate_per_second: float = Field(gt=0, le=MOST_PER_SECOND)
    spike_mult: float = Field(10, gt=0, le=1000)

    @model_validator(mode="after")
    def _peak_is_bounded(self) -> Self:
        _require_peak("spike_mult", self.rate_per_second, "rate_per_second", self.spike_mult)
        return self


class StepProfile(_SpikeProfile):
    """A base rate, a step to ``spike_mult`` times that rate, then the base rate again."""

    kind: Literal["step"]
    before_seconds: float = Field(ge=0, le=LONGEST_SECONDS)
    spike_hold_seconds: float = Field(gt=0, le=LONGEST_SECONDS)
    after_seconds: float = Field(ge=0, le=LONGEST_SECONDS)


class BurstyProfile(_SpikeProfile):
    """A sawtooth: ``bursts`` times a quiet period at the base rate, then a burst."""

    kind: Literal["bursty"]
    quiet_seconds: float = Field(gt=0, le=LONGEST_SECONDS)
    spike_hold_seconds: float = Field(gt=0, le=LONGEST_SECONDS)
    bursts: int = Field(ge=1, le=1000)
    after_seconds: float = Field(0, ge=0, le=LONGEST_SECONDS)


class TracePoint(StrictModel):
    """From ``second`` on the rate is ``rate_per_second``; a trace may mark its spikes."""

    second: float = Field(ge=0)
    rate_per_second: float = Field(ge=0, le=MOST_PER_SECOND)
    is_spike: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_row(cls, data: Any) -> Any:
        names = tuple(cls.model_fields)
        if isinstance(data, list | tuple) and len(data) <= len(names):
            return dict(zip(names, data, strict=False))
        return data


class TraceProfile(StrictModel):
    """Rates from a CSV file (columns second, rate, optionally spike) beside the scenario file.

    The last row's second is the end of the stream; its rate is not used.
    """

    kind: Literal["trace"]
    file: Annotated[str, Reach.FILE] = Field(min_length=1)
    rate_scale: float = Field(1.0, gt=0)
    points: tuple[TracePoint, ...] = Field((), description="filled from the file when it is read")

    @model_validator(mode="after")
    def _peak_is_bounded(self) -> Self:
        highest = max((point.rate_per_second for point in self.points), default=0)
        _require_peak("rate_scale", highest, "highest rate of the file", self.rate_scale)
        return self


class Stage(StrictModel):
    """One rate for some time; 0 is idle. A stage may be marked as a spike."""

    seconds: float = Field(gt=0, le=LONGEST_SECONDS)
    rate_per_second: float = Field(ge=0, le=MOST_PER_SECOND)
    is_spike: bool | None = None


class StagesProfile(StrictModel):
    """Rates one after the other, idle ones too, as a load test's stages."""

    kind: Literal["stages"]
    stages: tuple[Stage, ...] = Field(min_length=1, max_length=1000)


Profile = Annotated[
    SteadyProfile | StepProfile | BurstyProfile | TraceProfile | StagesProfile,
    Field(discriminator="kind"),
]


def profile_content(profile: Profile) -> dict[str, Any]:
    """Return what the producer gets, ready for JSON; each point of a trace is a row."""
    content = profile.model_dump(mode="json", exclude_none=True)
    if isinstance(profile, TraceProfile):
        content["points"] = [
            [int(one) if isinstance(one, float) and one.is_integer() else one for one in row]
            for row in (point.values() for point in content["points"])
        ]
    return content


def profile_text(profile: Profile) -> str:
    """Return the profile as JSON."""
    return json.dumps(profile_content(profile), separators=(",", ":"))


def _require_peak(field: str, rate: float, of: str, factor: float) -> None:
    """Reject a factor that makes the peak higher than a stream may be; ``of`` names the rate."""
    if rate * factor > MOST_PER_SECOND:
        raise ValueError(
            f"profile.{field} must be at most {MOST_PER_SECOND / rate:g}: times the {of} of "
            f"{rate:,.10g} it is the peak, which is at most {MOST_PER_SECOND:,} messages a second"
        )


_COLUMNS = ["second", "rate"]
_MARKED_COLUMNS = [*_COLUMNS, "spike"]
MOST_ROWS = 10_000
"""A day in steps of 10 s has 8,640."""
_NUMBER = re.compile(r"\s*[0-9.eE+-]+\s*")  # float takes digits of every script, and 1_000


def trace_points(text: str, *, where: str) -> tuple[TracePoint, ...]:
    """Return the rows of a trace; the last row's second ends the stream."""

    def refuse(field: str, value: object, allowed: str) -> WrongInput:
        return WrongInput(where=where, field=field, value=value, allowed=allowed)

    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len(lines) > MOST_ROWS + 1:
        allowed = f"at most {MOST_ROWS:,}: give the rate of a longer period in each row"
        raise refuse("rows", len(lines) - 1, allowed)
    rows = [(number, next(csv.reader([line]))) for number, line in lines]
    columns = [cell.strip() for cell in rows[0][1]] if rows else []
    if columns not in (_COLUMNS, _MARKED_COLUMNS):
        header = lines[0][1] if lines else ""
        raise refuse("header", header, "the columns second,rate or second,rate,spike")
    points: list[TracePoint] = []
    for number, row in rows[1:]:
        point = _point(row, columns)
        follows = point is not None and (
            point.second > points[-1].second if points else point.second == 0
        )
        if point is None or not follows:
            allowed = (
                "numbers: second (0 in the first row, then ascending) and rate "
                f"(0 to {MOST_PER_SECOND}){', and spike (0 or 1)' * (columns == _MARKED_COLUMNS)}"
            )
            raise refuse(f"line {number}", ",".join(row), allowed)
        points.append(point)
    if len(points) < 2:
        seconds = json.dumps([point.second for point in points])
        raise refuse("rows", seconds, "at least two: the last row's second is the stream's end")
    return tuple(points)


def _point(row: list[str], columns: list[str]) -> TracePoint | None:
    cells = dict(zip(columns, row, strict=False))
    is_marked = columns == _MARKED_COLUMNS
    if len(row) != len(columns) or not all(map(_NUMBER.fullmatch, row[:2])):
        return None
    if is_marked and cells["spike"].strip() not in ("0", "1"):
        return None
    mark = cells["spike"].strip() == "1" if is_marked else None
    with suppress(ValueError):  # ValidationError is one
        second, rate = float(cells["second"]), float(cells["rate"])
        if math.isfinite(second):
            return TracePoint(second=second, rate_per_second=rate, is_spike=mark)
    return None
