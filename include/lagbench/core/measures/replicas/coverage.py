"""Determine the coverage of the desired replicas: gaps in which they may have changed unobserved.

A gap between samples counts as observed if another source that reports every change kept reporting:

* The autoscaler reports each step and each of its syncs and polls. While these reports continue and
  each finds the replicas that the previous steps left, nothing else has scaled.
* The recorder's watch of the Deployment reports afterwards that it was unbroken; a broken watch
  reports nothing. Between two watches there is a list, and rarely more than a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lagbench.core.measures.evidence.gaps import GAP_SECONDS, Gap, gaps_between
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.telemetry.autoscaler import HpaSync, KedaPoll, Scaled
from lagbench.core.telemetry.recorder import ReplicaSample, ReplicasWatched
from lagbench.core.telemetry.records import TelemetryRecord

AUTOSCALER_GAP_SECONDS = 35.0
"""Longer than KEDA's polling interval (default 30 s) and the HPA's sync period (default 15 s)."""


def replica_gaps(records: Sequence[TelemetryRecord], from_at: int, until_at: int) -> list[Gap]:
    """Return the gaps that neither samples nor the autoscaler nor a watch covers."""
    sampled = [record.at for record in records if isinstance(record, ReplicaSample)]
    return [
        gap
        for gap in gaps_between(sampled, from_at, until_at)
        if not (_autoscaler_covers(records, gap) or _watch_covers(records, gap))
    ]


def _watch_covers(records: Sequence[TelemetryRecord], gap: Gap) -> bool:
    """Return whether unbroken watches cover ``gap``."""
    limit, covered_until = GAP_SECONDS * NANOSECONDS, gap.started_at
    watched = [record for record in records if isinstance(record, ReplicasWatched)]
    for watch in sorted(watched, key=lambda watch: watch.since_at):
        if watch.since_at - covered_until > limit:
            break
        covered_until = max(covered_until, watch.at)
    return gap.ended_at - covered_until <= limit


def _autoscaler_covers(records: Sequence[TelemetryRecord], gap: Gap) -> bool:
    """Return whether the autoscaler's records account for all of ``gap``."""
    reported = sorted(
        (r for r in records if isinstance(r, HpaSync | KedaPoll | Scaled)), key=lambda r: r.at
    )
    naming = [record for record in reported if not isinstance(record, KedaPoll)]  # with replicas
    before = [record for record in naming if record.at <= gap.started_at]
    after = [record for record in naming if record.at >= gap.ended_at]
    if not before or not after:
        return False
    around = [record for record in reported if before[-1].at <= record.at <= after[0].at]
    limit = AUTOSCALER_GAP_SECONDS * NANOSECONDS
    if any(right.at - left.at > limit for left, right in pairwise(around)):
        return False
    return _is_unbroken(around)


def _is_unbroken(reported: Sequence[HpaSync | KedaPoll | Scaled]) -> bool:
    """Return whether every record found the replicas that the previous step left."""
    replicas: int | None = None
    for record in reported:
        if isinstance(record, KedaPoll):
            continue
        found = record.replicas_before if isinstance(record, Scaled) else record.spec_replicas
        if replicas is not None and found != replicas:
            return False
        replicas = record.replicas_after if isinstance(record, Scaled) else found
    return True
