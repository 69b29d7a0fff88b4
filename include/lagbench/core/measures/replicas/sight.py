"""Find gaps in which the desired replicas may have changed unobserved.

A gap between samples counts as observed if another source that reports every change kept reporting:

* The autoscaler reports each step and each of its syncs and polls. While these reports continue and
  each finds the replicas that the previous steps left, nothing else has scaled.
* The recorder's watch of the Deployment reports afterwards that it was unbroken; a broken watch
  reports nothing. Between two watches there is a list, and rarely more than a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lagbench.core.measures.evidence import BLIND_SECONDS, Unseen, unseen_between
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.telemetry import (
    HpaSync,
    KedaPoll,
    ReplicaSample,
    ReplicasWatched,
    Scaled,
    TelemetryRecord,
)

AUTOSCALER_SILENCE_SECONDS = 35.0
"""Longer than KEDA's polling interval (default 30 s) and the HPA's sync period (default 15 s)."""


def unseen_replicas(
    records: Sequence[TelemetryRecord], from_at: int, until_at: int
) -> list[Unseen]:
    """Return the gaps that neither samples nor the autoscaler nor a watch covers."""
    sampled = [record.at for record in records if isinstance(record, ReplicaSample)]
    return [
        stretch
        for stretch in unseen_between(sampled, from_at, until_at)
        if not (_autoscaler_tells(records, stretch) or _watch_tells(records, stretch))
    ]


def _watch_tells(records: Sequence[TelemetryRecord], stretch: Unseen) -> bool:
    """Return whether unbroken watches cover ``stretch``."""
    limit, told_until = BLIND_SECONDS * NANOSECONDS, stretch.started_at
    watched = [record for record in records if isinstance(record, ReplicasWatched)]
    for watch in sorted(watched, key=lambda watch: watch.since_at):
        if watch.since_at - told_until > limit:
            break
        told_until = max(told_until, watch.at)
    return stretch.ended_at - told_until <= limit


def _autoscaler_tells(records: Sequence[TelemetryRecord], stretch: Unseen) -> bool:
    """Return whether the autoscaler's records account for all of ``stretch``."""
    told = sorted(
        (r for r in records if isinstance(r, HpaSync | KedaPoll | Scaled)), key=lambda r: r.at
    )
    naming = [record for record in told if not isinstance(record, KedaPoll)]  # with replicas
    before = [record for record in naming if record.at <= stretch.started_at]
    after = [record for record in naming if record.at >= stretch.ended_at]
    if not before or not after:
        return False
    around = [record for record in told if before[-1].at <= record.at <= after[0].at]
    limit = AUTOSCALER_SILENCE_SECONDS * NANOSECONDS
    if any(right.at - left.at > limit for left, right in pairwise(around)):
        return False
    return _is_unbroken(around)


def _is_unbroken(told: Sequence[HpaSync | KedaPoll | Scaled]) -> bool:
    """Return whether every record found the replicas that the previous step left."""
    replicas: int | None = None
    for record in told:
        if isinstance(record, KedaPoll):
            continue
        found = record.replicas_before if isinstance(record, Scaled) else record.spec_replicas
        if replicas is not None and found != replicas:
            return False
        replicas = record.replicas_after if isinstance(record, Scaled) else found
    return True
