"""Telemetry of the run's actions: what was done to it, from when to when.

Absent from runs of scenarios without actions.
"""

from __future__ import annotations

import msgspec

from lagbench.core.telemetry.record import Record


class ActionStarted(Record, tag="action_started"):
    """An action begins; ``at`` is before its first effect."""

    number: int  # its place in the scenario's list, from 0
    action: str  # its kind
    targets: list[str]  # names of pods, of Deployments, of a policy
    planned_at: int | None  # None: it waited for a state


class ActionEnded(Record, tag="action_ended"):
    """An action has ended: its effect is undone, or complete; ``at`` is after its last effect.

    ``error`` is why it was not played as planned; empty: it was.
    """

    number: int
    action: str
    error: str = ""
    came: list[str] = msgspec.field(default_factory=list)  # pods that it put in place of others
    detail: str = ""  # such as the difference of two policies
