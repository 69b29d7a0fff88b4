"""Find replica changes, reversals and flips, and check that the baseline stayed at its floor.

A reversal is a change in the opposite direction of the previous change. A flip is a reversal
without a cause in the load: every reversal except the first change downwards at or after the end of
the last spike, which is the intended return to the floor. A spike with one scale-up and one
scale-down has 1 reversal and 0 flips; so has a sawtooth that is handled at one replica count. A
steady load has no spike, so every reversal is a flip.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lagbench.core.measures.evidence.gaps import gaps_text
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replicas.coverage import replica_gaps
from lagbench.core.measures.replicas.steps import ReplicaChange, replica_steps
from lagbench.core.measures.replicas.timeline import ReplicaTimeline
from lagbench.core.telemetry.recorder import ReplicaSample
from lagbench.core.telemetry.records import TelemetryRecord


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
    between two samples (``replicas/steps.py``, ``replicas/timeline.py``).
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
            return None, gaps_text("replicas", gaps, stream_started_at)
        return True, f"{len(samples)} samples before the spike, all with {named} replicas"
    (first_at, first_spec) = off[0]
    off_samples = [spec for _, spec in samples if spec not in floors]
    first_seconds = (first_at - stream_started_at) / NANOSECONDS
    return False, (
        f"{first_spec} replicas wanted {first_seconds:.0f} s after the stream began, floor {named}"
        f" ({len(off_samples)} of {len(samples)} samples off the floor)"
    )
