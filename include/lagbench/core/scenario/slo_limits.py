"""The limits of the verdict: the field ``slos`` of a scenario."""

from __future__ import annotations

from pydantic import Field

from lagbench.core.scenario.conf_limits import StrictModel


class Slos(StrictModel):
    """Limits of the verdict; the defaults are the lab's table. None: reported, not judged."""

    reaction_seconds: float | None = Field(90, gt=0)
    drain_seconds: float | None = Field(None, gt=0, description="spike end to lag at threshold")
    lag_falls_at_full_parallelism: bool = True
    rebalance_dip_percent: float | None = Field(20, ge=0, le=100)
    rebalance_recovery_seconds: float | None = Field(5, ge=0)
    rebalance_area_seconds: float | None = Field(
        1.0, ge=0, description="work lost in a scale step, in seconds of the expected rate"
    )
    standstill_seconds: float | None = Field(
        5, gt=0, description="the longest time in which the group did nothing though work waited"
    )
    flips: int | None = Field(0, ge=0)
    pod_minutes: float | None = Field(
        None, gt=0, description="cost in pods, from the stream's start to its planned end"
    )
    lost: int | None = Field(0, ge=0)
    failed: int | None = Field(0, ge=0, description="given up by a pod, and not by poison")
    duplicated: int | None = Field(0, ge=0)
    reordered: int | None = Field(0, ge=0)
    zombies: int | None = Field(0, ge=0)
    baseline_at_floor: bool = True
    surplus_pods_idle: bool = True
    time_lag_p95_seconds: float | None = Field(None, gt=0)
    time_lag_p99_seconds: float | None = Field(None, gt=0)
