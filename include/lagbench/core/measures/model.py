"""Base of every model in ``measures.json`` and ``verdict.json``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

NANOSECONDS = 1_000_000_000
"""Nanoseconds in a second; every ``…_at`` is unix nanoseconds."""

Fidelity = Literal["simulated", "processes", "kubernetes"]


class MeasureModel(BaseModel):
    """Frozen, without unknown keys; ``None`` means that the number was not measured, never zero."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
