"""Measure the start cost of the pods of a run, beyond their intended start delay.

For one pod it is Ready minus created minus its start delay. This is the bench's own work (or a
cluster's whole start): creating the process, imports, connecting to the broker, the readiness
probe. Pods count if they became Ready and reported their start; runs of format 1 delayed no pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from pydantic import Field

from lagbench.core.measures.evidence import PodLife
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.telemetry import PodStarted, TelemetryRecord


class StartCost(MeasureModel):
    """Seconds from created to Ready beyond the delay, over pods; None: no pod reported it."""

    pods: int = 0
    untold_pods: int = Field(0, description="Ready, but without a record of their start")
    median_seconds: float | None = None
    max_seconds: float | None = None
    delay_mean_seconds: float | None = None
    cpu_seconds: float | None = Field(
        None, description="processor time of all starts up to the first record; None: not told"
    )


def start_cost(records: Sequence[TelemetryRecord], lives: Mapping[str, PodLife]) -> StartCost:
    """Return the start cost of the pods of ``lives``."""
    told: dict[str, PodStarted] = {}
    for record in records:  # a restarted container reports again: its first start counts
        if isinstance(record, PodStarted):
            told.setdefault(record.source, record)
    ready = {pod: life for pod, life in lives.items() if life.ready_at is not None}
    pods = [pod for pod in ready if pod in told]
    if not pods:
        return StartCost(untold_pods=len(ready))
    delays = {pod: told[pod].start_delay_seconds or 0.0 for pod in pods}
    costs = [_ready_seconds(ready[pod]) - delays[pod] for pod in pods]
    cpu = [told[pod].start_cpu_seconds for pod in pods]
    spent = [seconds for seconds in cpu if seconds is not None]
    return StartCost(
        pods=len(pods),
        untold_pods=len(ready) - len(pods),
        median_seconds=median(costs),
        max_seconds=max(costs),
        delay_mean_seconds=sum(delays.values()) / len(pods),
        cpu_seconds=sum(spent) if len(spent) == len(cpu) else None,
    )


def _ready_seconds(life: PodLife) -> float:
    ready_at = life.created_at if life.ready_at is None else life.ready_at
    return (ready_at - life.created_at) / NANOSECONDS
