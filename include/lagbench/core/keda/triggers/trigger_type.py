"""The record of a trigger type: what other rooms ask of a type without naming it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

Outage = Literal["none", "reading", "metric names", "scaler"]
"""The part that fails while a trigger's source is down.

``none``: there is no source to fail. ``reading``: each poll, and nothing else, so that the failures
are counted and the other triggers work. ``metric names``: the question for the metric's name, so
that nothing is counted. ``scaler``: its client cannot be built, and with it no trigger is served.
"""


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
    where: str
    field: str
    metric_type: str = ""
    auth: Mapping[str, str] | None = dataclasses.field(default=None, repr=False)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)


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
    """A source that is a sample of the group's total lag, as the simulator plays it."""

    reading: Callable[[float], tuple[float, bool]]
    """Takes the lag of the newest sample; returns the metric and whether the trigger is active."""


@dataclass(frozen=True, slots=True)
class RunSources:
    """The sources of a run's policy instead of production's; ``prometheus`` None: as written."""

    bootstrap_servers: str
    topic: str
    group: str
    prometheus: str | None = None


def _as_written(metadata: Mapping[str, str], _sources: RunSources) -> Mapping[str, str]:
    return metadata


def _no_remarks(_parameters: Any, _metadata: Mapping[str, str]) -> Iterator[Remark]:
    return iter(())


def _no_threshold(_metadata: Mapping[str, str]) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class TriggerType(Generic[Parameters]):
    """One type of ``spec.triggers[].type``."""

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
    lag_threshold: Callable[[Mapping[str, str]], str | None] = _no_threshold
    """The key of the metadata that holds the records of lag per replica; None: it counts others."""
    for_run: Callable[[Mapping[str, str], RunSources], Mapping[str, str]] = _as_written
    """The metadata with what a run sets itself."""
    sampled_lag: Callable[[Parameters, str], SampledLag] | None = None
    """Simulates the trigger; takes the metadata's field for its errors."""
