"""Collect the autoscaler's own reports: Kubernetes events and changed conditions of HPAs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lagbench.core.measures import NANOSECONDS
from lagbench.core.telemetry import HpaSample, KubeEvent, TelemetryRecord

KINDS = ("kube_event", "hpa_sample")


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line: seconds since the origin, object, reason, message and count."""

    seconds: float
    about: str
    reason: str
    message: str
    count: int
    is_warning: bool


def scaling_log(records: Sequence[TelemetryRecord], origin_at: int) -> tuple[LogRow, ...]:
    """Return the lines by instant; ``records``: ascending by ``at``."""
    rows = [*_events(records, origin_at), *_conditions(records, origin_at)]
    return tuple(sorted(rows, key=lambda row: row.seconds))


def _events(records: Sequence[TelemetryRecord], origin_at: int) -> Iterable[LogRow]:
    for event in records:
        if isinstance(event, KubeEvent):
            yield LogRow(
                seconds=(event.at - origin_at) / NANOSECONDS,
                about=f"{event.object_kind}/{event.object_name}",
                reason=event.reason,
                message=event.message,
                count=event.count,
                is_warning=event.type == "Warning",
            )


def _conditions(records: Sequence[TelemetryRecord], origin_at: int) -> Iterable[LogRow]:
    reported: dict[str, set[str]] = {}
    for sample in records:
        if not isinstance(sample, HpaSample):
            continue
        now = set(sample.conditions)
        changed = sorted(now - reported.get(sample.name, set()))
        reported[sample.name] = now
        if changed:
            yield LogRow(
                seconds=(sample.at - origin_at) / NANOSECONDS,
                about=f"HorizontalPodAutoscaler/{sample.name}",
                reason="conditions",
                message=", ".join(changed),
                count=1,
                is_warning=False,
            )
