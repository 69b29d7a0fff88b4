"""A measured figure with its aim beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "missed", "", "not measured", "failed"]


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound that the figure should keep."""

    sense: Literal["at least", "at most"]
    bound: float

    def holds(self, value: float) -> bool:
        """Return whether ``value`` keeps the bound."""
        return value >= self.bound if self.sense == "at least" else value <= self.bound


@dataclass(frozen=True, slots=True)
class Figure:
    """One number; ``value`` None where it could not be taken, for the reason in ``note``."""

    name: str
    value: float | None
    unit: str
    aim: Aim | None = None
    note: str = ""
    has_failed: bool = False

    @property
    def state(self) -> State:
        """Say how the figure stands against its aim; empty without one."""
        if self.has_failed:
            return "failed"
        if self.value is None:
            return "not measured"
        if self.aim is None:
            return ""
        return "ok" if self.aim.holds(self.value) else "missed"


def at_least(bound: float) -> Aim:
    """Return the aim of a figure that should be high."""
    return Aim("at least", bound)


def at_most(bound: float) -> Aim:
    """Return the aim of a figure that should be low."""
    return Aim("at most", bound)
