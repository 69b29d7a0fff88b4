"""A trigger type's parameters, one field of a model for each, and who rejects them."""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from types import NoneType
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretStr

from lag_scaler.keda_values import go_boolean
from lagbench.errors import WrongInput

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")  # as JSON has it: no plus sign, no leading zero

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

_INT64 = range(-(2**63), 2**63)

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}

_PIECE = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")

HIDDEN = "(from the TriggerAuthentication)"

Source = Literal["metadata", "env", "auth"]

Outage = Literal["none", "reading", "metric names", "scaler"]
"""The part that fails while a trigger's source is down.

``none``: there is no source to fail. ``reading``: each poll, and nothing else, so that the failures
are counted and the other triggers work. ``metric names``: the question for the metric's name, so
that nothing is counted. ``scaler``: its client cannot be built, and with it no trigger is served.
"""


RefusalStage = Literal["bounds", "triggers", "scaler", "hpa"]
# What the operator writes before its reason into Ready=False, by the step that failed.
_HPA_FAILED = "failed to ensure HPA is correctly created for ScaledObject"
_STAGE_TEXT: Mapping[RefusalStage, str] = {
    "bounds": "ScaledObject doesn't have correct Idle/Min/Max Replica Counts specification",
    "triggers": "ScaledObject doesn't have correct triggers specification",
    "scaler": _HPA_FAILED,
    "hpa": _HPA_FAILED,
}


class NotSupported(WrongInput):
    """KEDA would take what is written; the embedded autoscaler cannot do it."""


class TriggerRefused(WrongInput):
    """KEDA's operator rejects the value; ``keda_message`` is the reason, in words of the bench.

    ``stage`` is the step that fails: only a failing "scaler" has an event of its own
    (KEDAScalerFailed, with the reason alone) beside ScaledObjectCheckFailed.
    """

    def __init__(
        self,
        *,
        where: str,
        field: str,
        value: object,
        keda_message: str,
        stage: RefusalStage = "scaler",
        hint: str = "",
    ) -> None:
        """Keep the reason both as what is shown (with ``hint``) and by itself."""
        allowed = f"{keda_message} ({hint})" if hint else keda_message
        super().__init__(where=where, field=field, value=value, allowed=allowed)
        self.keda_message, self.hint = keda_message, hint
        self.stage: RefusalStage = stage

    @property
    def condition_message(self) -> str:
        """Return the message of the Ready condition."""
        return f"{_STAGE_TEXT[self.stage]}: {self.keda_message}"


@dataclass(frozen=True, slots=True)
class Given:
    """Where KEDA looks for a parameter, in order.

    ``name``: KEDA's own, if it is not the field's in camel case. ``allowed``: a text's values;
    empty: any. ``is_duration``: ``1m30s``, or a number of milliseconds.
    """

    order: tuple[Source, ...] = ("metadata",)
    name: str = ""
    allowed: tuple[str, ...] = ()
    is_duration: bool = False


EnvText = Annotated[str, Given(("metadata", "env"))]

AuthText = Annotated[str, Given(("auth",))]

Secret = Annotated[SecretStr | None, Given(("auth",))]


class TriggerParameters(BaseModel, ABC):
    """The parameters of one trigger as KEDA parses them; each type adds its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @abstractmethod
    def metric_name(self, trigger_index: int) -> str:
        """Return the name under which the HPA requests this trigger's metric."""


Parameters = TypeVar("Parameters", bound=TriggerParameters)


@dataclass(frozen=True, slots=True)
class TriggerSource:
    """One trigger as written, and what surrounds it; ``auth`` None: not known yet."""

    metadata: Mapping[str, str] = dataclasses.field(repr=False)
    where: str = "trigger"
    field: str = "trigger"
    metric_type: str = ""
    auth: Mapping[str, str] | None = dataclasses.field(default=None, repr=False)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)

    def find(self, name: str, order: tuple[Source, ...]) -> tuple[str, Source] | None:
        """Return the first value that is not blank, without outer blanks, and where it is."""
        variable = self.metadata.get(f"{name}FromEnv", "")
        values: dict[Source, str | None] = {
            "metadata": self.metadata.get(name),
            "env": self.environment.get(variable) if variable else None,
            "auth": (self.auth or {}).get(name),
        }
        found = ((str(values[source] or "").strip(), source) for source in order)
        return next(((value, source) for value, source in found if value), None)

    def beyond(self, parameter: str, value: str, allowed: str) -> NotSupported:
        """Return what to say of a parameter that only KEDA's scaler can do."""
        return NotSupported(
            where=self.where,
            field=f"{self.field}.metadata.{parameter}",
            value=value,
            allowed=f"{allowed}: KEDA supports it, the scaler of this bench does not",
        )

    def refused(self, parameter: str, problem: str) -> TriggerRefused:
        """Return the operator's refusal for one parameter; a secret's value is not in it."""
        return TriggerRefused(
            where=self.where,
            field=f"{self.field}.metadata.{parameter}",
            value=self.metadata.get(parameter, ""),
            keda_message=f"{parameter}: {problem}",
        )


@dataclass(frozen=True, slots=True)
class Remark:
    """An effect of a parameter that its name hides; ``parameter`` is a key of the metadata."""

    level: Literal["broken", "warning", "note"]
    code: str
    parameter: str
    value: str
    happens: str
    instead: str = ""


@dataclass(frozen=True, slots=True)
class SampledLag:
    """A source that is a sample of the group's total lag, as the simulator plays it.

    The value is lag / ``backlog_seconds``, plus what arrives per second over ``rate_seconds``.
    """

    reading: Callable[[float], tuple[float, bool]]
    """Takes the newest value; returns the metric and whether the trigger is active."""
    backlog_seconds: float = 1.0
    rate_seconds: int = 0  # 0: what arrives does not count


@dataclass(frozen=True, slots=True)
class RunSources:
    """The sources of a run's policy instead of production's; ``prometheus`` None: as written."""

    bootstrap_servers: str
    topic: str
    group: str
    prometheus: str | None = None


def _no_remarks(_parameters: Any, _metadata: Mapping[str, str]) -> Iterator[Remark]:
    return iter(())


@dataclass(frozen=True, slots=True)
class TriggerType(Generic[Parameters]):
    """One type of ``spec.triggers[].type``: what other rooms ask of it without naming it."""

    name: str
    parse: Callable[[TriggerSource], Parameters]
    target_milli: Callable[[Parameters], int] | None = None
    """The target of the one external metric; None: the HPA or a server alone knows the metrics."""
    is_resource: bool = False
    """True: the HPA reads the pods itself, so KEDA polls nothing."""
    may_be_cached: bool = True
    outage: Outage = "reading"
    read_parameters: frozenset[str] = frozenset()
    """Every key that KEDA reads in the metadata; empty: the type takes any."""
    remarks: Callable[[Parameters, Mapping[str, str]], Iterator[Remark]] = _no_remarks
    beyond: Callable[[Parameters, TriggerSource], NotSupported | None] = lambda _parameters, _: None
    """Names a parameter that KEDA takes, and the bench's scaler cannot do."""
    for_run: Callable[[Mapping[str, str], RunSources], Mapping[str, str]] = lambda written, _: (
        written
    )
    """The metadata with what a run sets itself."""
    sampled_lag: Callable[[Parameters, str], SampledLag] | None = None
    """Simulates the trigger; takes the metadata's field for its errors."""


def read_values(
    model: type[BaseModel], source: TriggerSource
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the values of a model's fields that are given, and (parameter, problem) of others."""
    values: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for attribute, name, given, field in _fields(model):
        found = source.find(name, given.order)
        if found is None:
            if field.is_required():
                problems.append((name, f"required, in the {' or '.join(given.order)}"))
            continue
        text, place = found
        try:
            values[attribute] = _value(field.annotation, given, text)
        except ValueError as error:
            shown = HIDDEN if place == "auth" else f'"{text}"'
            problems.append((name, f"{shown} {error}"))
    return values, problems


def metadata_keys(*models: type[BaseModel]) -> frozenset[str]:
    """Return every key of the metadata that KEDA reads for these models."""
    fields = (found for model in models for found in _fields(model))
    return frozenset(name for _, name, given, _ in fields if "metadata" in given.order)


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, str, Given, Any]]:
    """Yield attribute, KEDA's name, where it is given and the field of each parameter."""
    for name, field in model.model_fields.items():
        given = next((item for item in field.metadata if isinstance(item, Given)), None)
        if given is not None:
            first, *rest = name.split("_")
            yield name, given.name or first + "".join(map(str.capitalize, rest)), given, field


def _value(annotation: Any, given: Given, text: str) -> Any:
    """Return a parameter's value; ``ValueError`` says what it is not."""
    origin = get_origin(annotation)
    allowed = given.allowed or (get_args(annotation) if origin is Literal else ())
    if allowed and text not in allowed:
        raise ValueError(f"is none of {', '.join(allowed)}")
    if origin is tuple:
        return tuple(piece.strip() for piece in text.split(","))
    if given.is_duration:
        return _seconds(text)
    if origin is Mapping:
        return _mapping(text)
    if NoneType in get_args(annotation):
        return SecretStr(text)
    return _SCALARS.get(annotation, str)(text)


def _boolean(text: str) -> bool:
    value = go_boolean(text)
    if value is None:
        raise ValueError("is not a boolean: true or false")
    return value


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text) or int(text) not in _INT64:
        raise ValueError("is not an integer")
    return int(text)


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text) or not isfinite(float(text)):
        raise ValueError("is not a number")
    return float(text)


_SCALARS: Mapping[Any, Callable[[str], Any]] = {bool: _boolean, int: _integer, float: _number}


def _seconds(text: str) -> float:
    seconds = duration_seconds_of(text)
    if seconds is None and re.fullmatch(r"[+-]?[0-9]+", text):
        seconds = int(text) / 1000
    if seconds is None:
        raise ValueError("is neither a duration such as 30s nor a number of milliseconds")
    if seconds < 0:
        raise ValueError("is negative")
    return seconds


def _mapping(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for piece in text.split(","):
        key, sign, value = piece.strip().partition("=")
        if not sign or "=" in value:
            raise ValueError("is not of the form KEY=VALUE,KEY=VALUE")
        values[key.strip()] = value.strip()
    return values


def duration_seconds_of(text: str) -> float | None:
    """Return a duration in Go's notation (``1m30s``) in seconds; None: it is none."""
    unsigned = text.removeprefix("-").removeprefix("+") if text[:2] not in {"+-", "-+"} else text
    if unsigned != "0" and not re.fullmatch(rf"(?:{_PIECE.pattern})+", unsigned):
        return None
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PIECE.findall(unsigned))
    return -seconds if text.startswith("-") else seconds
