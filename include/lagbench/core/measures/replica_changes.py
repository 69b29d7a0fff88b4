"""Determine the coverage of the desired replicas: gaps in which they may have changed unobserved.

A gap between samples counts as observed if another source that reports every change kept reporting:

* The autoscaler reports each step and each of its syncs and polls. While these reports continue and
  each finds the replicas that the previous steps left, nothing else has scaled.
* The recorder's watch of the Deployment reports afterwards that it was unbroken; a broken watch
  reports nothing. Between two watches there is a list, and rarely more than a moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.lag_readings import GAP_SECONDS, Gap, gaps_between, gaps_text
from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replica_steps import ReplicaChange, ReplicaTimeline, replica_steps
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import HpaSync, KedaPoll, Scaled
from lagbench.core.telemetry.records_of_recorder import ReplicaSample, ReplicasWatched

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


def replica_changes(
    records: Sequence[TelemetryRecord],
    *,
    from_at: int,
    until_at: int,
    last_spike_ended_at: int | None,
) -> tuple[ReplicaChange, ...]:
    """Return the changes of the desired replicas in [from_at, until_at], by instant.

    The recorder's samples show the desired replicas. The autoscaler's own records and the
    recorder's watch show exactly when and by whom they were changed, and changes that were undone
    between two samples (``replica_steps.py``).
    """
    samples = sorted(
        (r for r in records if isinstance(r, ReplicaSample) and r.at <= until_at),
        key=lambda sample: sample.at,
    )
    timeline = ReplicaTimeline(replica_steps(records))
    raw: list[ReplicaChange] = []
    for before, after in pairwise(samples):
        changes = timeline.between(before, after)
        if after.at >= from_at:
            raw.extend(changes)
    if samples:
        raw.extend(timeline.beyond(samples[-1], until_at))
    # A sample is read up to a second after its stamp: a step may be that much earlier.
    measured = [change for change in raw if change.at >= from_at - NANOSECONDS]
    return tuple(mark_flips(measured, last_spike_ended_at))


def mark_flips(
    changes: Sequence[ReplicaChange], last_spike_ended_at: int | None
) -> list[ReplicaChange]:
    """Return the changes, in order of time, with reversals and flips marked."""
    marked: list[ReplicaChange] = []
    direction, is_return_due = 0, last_spike_ended_at is not None
    for change in changes:
        heading = 1 if change.replicas_after > change.replicas_before else -1
        is_reversal = direction not in (0, heading)
        is_return = (
            is_return_due
            and heading < 0
            and last_spike_ended_at is not None
            and change.at >= last_spike_ended_at
        )
        is_return_due = is_return_due and not is_return
        update = {"is_reversal": is_reversal, "is_flip": is_reversal and not is_return}
        marked.append(change.model_copy(update=update))
        direction = heading
    return marked


def baseline_at_floor(
    records: Sequence[TelemetryRecord],
    changes: Sequence[ReplicaChange],
    *,
    floor: int | None,
    stream_started_at: int | None,
    first_spike_started_at: int | None,
    until_at: int,
    started: int | None = None,
) -> tuple[bool | None, str]:
    """Return whether the desired replicas stayed at ``floor`` until the first spike.

    A policy whose floor is 0 may be there, or at the ``started`` replicas of its activation.
    Without a spike the baseline is the whole stream. None without any
    sample, or if nothing was seen off the floor but the samples of the baseline have a gap.
    """
    if floor is None or stream_started_at is None:
        return None, "floor or start of the stream unknown"
    end = first_spike_started_at if first_spike_started_at is not None else until_at
    samples = [
        (record.at, record.spec)
        for record in records
        if isinstance(record, ReplicaSample) and stream_started_at <= record.at < end
    ]
    if not samples:
        return None, "no replica sample before the spike"
    steps = [(c.at, c.replicas_after) for c in changes if stream_started_at <= c.at < end]
    floors = {floor, floor if started is None else started}
    named = " or ".join(map(str, sorted(floors)))
    off = sorted((at, spec) for at, spec in [*samples, *steps] if spec not in floors)
    if not off:
        gaps = replica_gaps(records, stream_started_at, end)
        if gaps:
            return None, gaps_text("replicas", gaps, first_spike_started_at or stream_started_at)
        return True, f"{len(samples)} samples before the spike, all with {named} replicas"
    (first_at, first_spec) = off[0]
    off_samples = [spec for _, spec in samples if spec not in floors]
    first_seconds = (first_at - stream_started_at) / NANOSECONDS
    return False, (
        f"{first_spec} replicas wanted {first_seconds:.0f} s after the stream began, floor {named}"
        f" ({len(off_samples)} of {len(samples)} samples off the floor)"
    )


def mark_self_made(
    changes: Sequence[ReplicaChange], spikes: Sequence[tuple[int, int]]
) -> list[ReplicaChange]:
    """Return the changes, in order of time, with each flip marked as self-made or not.

    :param spikes: start and end of each spike in unix nanoseconds, in order of time.
    """
    turns = [turn for start, end in spikes for turn in ((start, 1), (end, -1))]
    marked: list[ReplicaChange] = []
    for change in changes:
        heading = 1 if change.replicas_after > change.replicas_before else -1
        came = [
            place for place, (at, way) in enumerate(turns) if way == heading and at <= change.at
        ]
        if came:
            del turns[: came[-1] + 1]
        is_self_made = not came if change.is_flip else None
        marked.append(change.model_copy(update={"is_self_made": is_self_made}))
    return marked


STAMP_SLACK_SECONDS = 1.0
"""The longest delay of a stamp after its change."""


@dataclass(frozen=True, slots=True)
class ReplicaPods:
    """For each pod, the change that created it and the change that removed it."""

    added: Mapping[str, ReplicaChange] = field(default_factory=dict)
    removed: Mapping[str, ReplicaChange] = field(default_factory=dict)

    def of_step(self, change: ReplicaChange) -> frozenset[str]:
        """Return the pods that ``change`` created or removed."""
        both = (*self.added.items(), *self.removed.items())
        return frozenset(pod for pod, step in both if step is change)


def replica_pods(
    changes: Sequence[ReplicaChange],
    events: Sequence[GroupEvent],
    timelines: Mapping[str, PodTimeline],
) -> ReplicaPods:
    """Return the pods of ``changes``; ``events`` ascend by instant."""
    came = {event.pod: event.at for event in reversed(events)}
    came |= {pod: timeline.created_at for pod, timeline in timelines.items()}
    return ReplicaPods(
        _matched(_by(changes, 1), came), _matched(_by(changes, -1), _left(events, timelines))
    )


def earliest_at(change: ReplicaChange) -> int:
    """Return the earliest instant of the change: its stamp may follow the change itself.

    The autoscaler stamps after the API server's response. Pods were seen leaving 75 ms before it.
    """
    slack_seconds = max(change.precision_seconds, STAMP_SLACK_SECONDS)
    return change.at - round(slack_seconds * NANOSECONDS)


def _by(changes: Sequence[ReplicaChange], sign: int) -> list[ReplicaChange]:
    return [c for c in changes if (c.replicas_after - c.replicas_before) * sign > 0]


def _left(events: Sequence[GroupEvent], timelines: Mapping[str, PodTimeline]) -> dict[str, int]:
    """Return when each pod was asked to stop; a pod that died was not asked."""
    died = {event.pod for event in events if event.kind == "died"}
    gone = {
        pod: timeline.gone_at
        for pod, timeline in timelines.items()
        if timeline.gone_at is not None and pod not in died
    }
    for kind in ("left", "sigterm"):
        gone |= {event.pod: event.at for event in events if event.kind == kind}
    return gone


def _matched(
    changes: Sequence[ReplicaChange], instants: Mapping[str, int]
) -> dict[str, ReplicaChange]:
    room = [abs(change.replicas_after - change.replicas_before) for change in changes]
    found: dict[str, ReplicaChange] = {}
    for pod, at in sorted(instants.items(), key=lambda item: (item[1], item[0])):
        for place in reversed(range(len(changes))):
            if room[place] and earliest_at(changes[place]) <= at:
                room[place] -= 1
                found[pod] = changes[place]
                break
    return found
