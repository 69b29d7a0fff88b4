"""Replica changes, reversals and flips, and whether the baseline stayed at its floor.

A reversal is a change in the other direction than the change before. A flip is a reversal that
the load did not ask for: every reversal, but the first change downwards at or after the end of
the last spike, which is the intended return to the floor. A spike answered by one rise and one
fall has 1 reversal and 0 flips; a sawtooth ridden out at one height likewise. A steady load has no
spike, so every reversal is a flip.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lagbench.core.measures import NANOSECONDS, ReplicaChange
from lagbench.core.telemetry import ReplicaSample, Scaled, TelemetryRecord
from lagbench.core.watched_steps import WatchedSteps, leads


def replica_changes(
    records: Sequence[TelemetryRecord],
    *,
    from_at: int,
    until_at: int,
    last_spike_ended_at: int | None,
) -> tuple[ReplicaChange, ...]:
    """Return the changes of the wanted replicas in [from_at, until_at], by instant.

    The recorder's samples say that something changed. The autoscaler's own records between two
    samples say exactly when, and by whom, as far as they lead from one sample to the next; else
    the steps that the recorder's watch saw do (``core/watched_steps.py``).
    """
    samples = sorted(
        (r for r in records if isinstance(r, ReplicaSample) and r.at <= until_at),
        key=lambda sample: sample.at,
    )
    scaled = sorted((r for r in records if isinstance(r, Scaled)), key=lambda step: step.at)
    watched = WatchedSteps.of(records)
    raw: list[ReplicaChange] = []
    for before, after in pairwise(samples):
        if after.at >= from_at and before.spec != after.spec:
            raw.extend(_between(before, after, scaled) or watched.between(before, after))
    return tuple(mark_flips(raw, last_spike_ended_at))


def _between(
    before: ReplicaSample, after: ReplicaSample, scaled: Sequence[Scaled]
) -> list[ReplicaChange]:
    """Return the autoscaler's steps from one sample to the next; none if they do not fit.

    The sample is read up to a second before or after its stamp, so a step counts from one second
    before the first sample on.
    """
    since_at = before.at - NANOSECONDS
    steps = [step for step in scaled if since_at <= step.at <= after.at]
    for start in range(len(steps)):
        chain = steps[start:]
        if leads(chain, before.spec, after.spec):
            return [
                ReplicaChange(
                    at=step.at,
                    replicas_before=step.replicas_before,
                    replicas_after=step.replicas_after,
                    by=step.by,
                    reason=step.reason,
                    precision_seconds=0.0,
                    is_reversal=False,
                    is_flip=False,
                )
                for step in chain
            ]
    return []


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
    *,
    floor: int | None,
    stream_started_at: int | None,
    first_spike_started_at: int | None,
    until_at: int,
) -> tuple[bool | None, str]:
    """Return whether wanted replicas stayed at ``floor`` until the first spike.

    Without a spike the baseline is the whole stream. None when there is no sample to tell.
    """
    if floor is None or stream_started_at is None:
        return None, "floor or start of the stream unknown"
    end = first_spike_started_at if first_spike_started_at is not None else until_at
    samples = [
        record
        for record in records
        if isinstance(record, ReplicaSample) and stream_started_at <= record.at < end
    ]
    if not samples:
        return None, "no replica sample before the spike"
    off = [sample for sample in samples if sample.spec != floor]
    if not off:
        return True, f"{len(samples)} samples before the spike, all with {floor} replicas"
    first_seconds = (off[0].at - stream_started_at) / NANOSECONDS
    return False, (
        f"{off[0].spec} replicas wanted {first_seconds:.0f} s after the stream began, floor {floor}"
        f" ({len(off)} of {len(samples)} samples off the floor)"
    )
