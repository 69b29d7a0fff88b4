"""Measure the start cost of the pods of a run, beyond their intended start delay.

For one pod it is Ready minus created minus its start delay. This is the bench's own work (or a
cluster's whole start): creating the process, imports, connecting to the broker, the readiness
probe. Pods count if they became Ready and reported their start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from pydantic import Field

from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.telemetry.consumer import PodStarted
from lagbench.core.telemetry.records import TelemetryRecord


class StartCost(MeasureModel):
    """Seconds from created to Ready beyond the delay, over pods; None: no pod reported it."""

    pods: int = 0
    unreported_pods: int = Field(
        0,
        description="Ready, but without a record of their start",
    )
    median_seconds: float | None = None
    max_seconds: float | None = None
    delay_mean_seconds: float | None = None
    cpu_seconds: float | None = Field(
        None, description="processor time of all starts up to the first record; None: not reported"
    )


def start_cost(
    records: Sequence[TelemetryRecord], timelines: Mapping[str, PodTimeline]
) -> StartCost:
    """Return the start cost of the pods of ``timelines``."""
    reported: dict[str, PodStarted] = {}
    for record in records:  # a restarted container reports again: its first start counts
        if isinstance(record, PodStarted):
            reported.setdefault(record.source, record)
    ready = {
        pod: (timeline.ready_at - timeline.created_at) / NANOSECONDS
        for pod, timeline in timelines.items()
        if timeline.ready_at is not None
    }
    pods = [pod for pod in ready if pod in reported]
    if not pods:
        return StartCost(unreported_pods=len(ready))
    delays = {pod: reported[pod].start_delay_seconds or 0.0 for pod in pods}
    costs = [ready[pod] - delays[pod] for pod in pods]
    cpu = [reported[pod].start_cpu_seconds for pod in pods]
    spent = [seconds for seconds in cpu if seconds is not None]
    return StartCost(
        pods=len(pods),
        unreported_pods=len(ready) - len(pods),
        median_seconds=median(costs),
        max_seconds=max(costs),
        delay_mean_seconds=sum(delays.values()) / len(pods),
        cpu_seconds=sum(spent) if len(spent) == len(cpu) else None,
    )
