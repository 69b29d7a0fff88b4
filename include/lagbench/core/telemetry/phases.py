"""Telemetry of the run itself: its phases, from the Dag's tasks."""

from __future__ import annotations

from typing import Literal

from lagbench.core.telemetry.record import Record


class Phase(Record, tag="phase"):
    """A phase of the run began, ended or failed."""

    name: str
    state: Literal["started", "finished", "failed"]
    detail: str = ""
