"""The conditions of all consumer groups of a run as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from lagbench_airflow.triggers.condition import ConditionTrigger, Reading

Part = tuple[str, dict[str, Any]]
"""A trigger as ``serialize`` returns it: class path and arguments."""


class EveryGroupTrigger(ConditionTrigger):
    """Fires when the condition of each group holds; moot as soon as one can no longer hold.

    Conditions that are to hold for some time must hold together. Without such a time each counts
    once it was met, because it may have ended in one group before it begins in the other. ``met``
    has what was seen in the groups in which that was so before this trigger.
    """

    def __init__(
        self,
        *,
        parts: Mapping[str, Part],
        met: Mapping[str, Mapping[str, Any]] | None = None,
        **bounds: float,
    ) -> None:
        """Keep the conditions by the name of their group."""
        super().__init__(**bounds)
        self.parts = {name: (str(part[0]), dict(part[1])) for name, part in parts.items()}
        self.met = {
            name: Reading(is_met=True, seen=dict(seen)) for name, seen in (met or {}).items()
        }
        self._triggers: dict[str, ConditionTrigger] = {}
        for name, (path, arguments) in self.parts.items():
            module, _, kind = path.rpartition(".")
            self._triggers[name] = getattr(import_module(module), kind)(**arguments)
            self._triggers[name].clients = self.clients  # opened and closed together

    @classmethod
    def of(cls, triggers: Mapping[str, ConditionTrigger]) -> EveryGroupTrigger:
        """Return the triggers as one; all have the same bounds."""
        first = next(iter(triggers.values()))
        return cls(
            parts={name: trigger.serialize() for name, trigger in triggers.items()},
            deadline_at=first.deadline_at,
            hold_seconds=first.hold_seconds,
            poll_seconds=first.poll_seconds,
        )

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            "parts": {name: list(part) for name, part in self.parts.items()},
            "met": {name: reading.seen for name, reading in self.met.items()},
        }

    def continue_from(self, earlier: ConditionTrigger) -> None:
        """Take over in which groups the condition was met."""
        if isinstance(earlier, EveryGroupTrigger):
            self.met = dict(earlier.met)

    def read(self) -> Reading:
        """Read the condition of each group."""
        readings = {name: self._read(name) for name in self._triggers}
        return Reading(
            is_met=all(reading.is_met for reading in readings.values()),
            seen={name: reading.seen for name, reading in readings.items()},
            is_moot=any(reading.is_moot for reading in readings.values()),
        )

    def _read(self, name: str) -> Reading:
        if name in self.met:
            return self.met[name]
        reading = self._triggers[name].read()
        if reading.is_met and not self.hold_seconds:
            self.met[name] = reading
        return reading


def trigger_of_groups(triggers: Sequence[ConditionTrigger]) -> ConditionTrigger:
    """Return the one trigger of a run with one group, else all of them as one."""
    if len(triggers) == 1:
        return triggers[0]
    return EveryGroupTrigger.of(dict(zip(("first_group", "second_group"), triggers, strict=True)))
