"""Measure the bench's own cost: CPU of recorder, localkube, broker, … over the run.

CPU seconds of a part are its last reading minus its first. A reading below the previous one means
that the part was restarted, so counting continues from zero. The share is of one core over the time
in which anything was observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.telemetry.recorder import UsageSample
from lagbench.core.telemetry.records import TelemetryRecord


class ComponentCost(MeasureModel):
    """CPU and memory of one part of the bench over the run."""

    component: str
    cpu_seconds: float
    cpu_share: float  # of one core over the observed time
    max_memory_bytes: int


class ObserverCost(MeasureModel):
    """The bench's own use of the machine."""

    observed_seconds: float | None
    components: tuple[ComponentCost, ...]
    total_cpu_seconds: float | None


def observer_cost(records: Sequence[TelemetryRecord], from_at: int, until_at: int) -> ObserverCost:
    """Return the cost per part, highest first."""
    samples = sorted(
        (r for r in records if isinstance(r, UsageSample) and from_at <= r.at <= until_at),
        key=lambda sample: sample.at,
    )
    observed = (samples[-1].at - samples[0].at) / NANOSECONDS if samples else 0.0
    if observed == 0:  # one reading of a running total is not enough
        return ObserverCost(observed_seconds=None, components=(), total_cpu_seconds=None)
    by_part: dict[str, list[UsageSample]] = {}
    for sample in samples:
        by_part.setdefault(sample.component, []).append(sample)
    parts = []
    for component, own in by_part.items():
        grown = [(b.cpu_seconds - a.cpu_seconds, b.cpu_seconds) for a, b in pairwise(own)]
        cpu = sum(more if more >= 0 else whole for more, whole in grown)  # else it was restarted
        parts.append(
            ComponentCost(
                component=component,
                cpu_seconds=cpu,
                cpu_share=cpu / observed,
                max_memory_bytes=max(sample.memory_bytes for sample in own),
            )
        )
    parts.sort(key=lambda part: (-part.cpu_seconds, part.component))
    return ObserverCost(
        observed_seconds=observed,
        components=tuple(parts),
        total_cpu_seconds=sum(part.cpu_seconds for part in parts),
    )
