"""Telemetry of the autoscaler: its readings and decisions."""

from __future__ import annotations

from typing import Literal

from lagbench.core.telemetry.record import Record


class KedaPoll(Record, tag="keda_poll"):
    """KEDA's scale loop read its triggers."""

    scaled_object: str
    metrics: dict[str, float]
    is_active: bool
    error: str = ""


class HpaSync(Record, tag="hpa_sync"):
    """One sync of the HPA controller: its readings, proposal and decision."""

    hpa: str
    spec_replicas: int
    status_replicas: int
    metrics: dict[str, float | None]
    proposal: int | None
    desired: int
    able_to_scale: str
    scaling_limited: str
    scaling_active: str
    error: str = ""


class Scaled(Record, tag="scaled"):
    """The target's replicas were changed."""

    target: str
    replicas_before: int
    replicas_after: int
    by: Literal["keda", "hpa", "user"]
    reason: str
