"""Find readings that do not move with the others: they are stale, or wrong.

The broker, the API server and the recorder each report the run from their own view. Offsets that
fall, replicas that no pod and no member follows, and stamps that are minutes from the instant at
which they were seen show nothing about the policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from lagbench.core.measures.doubts.window import Window
from lagbench.core.measures.evidence import first_cuts
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.telemetry import GroupSample, PodSeen, PodsListed, ReadGap, ReplicaSample

LASTING_SECONDS = 10.0
"""Readings of two sources may differ for as long as a busy machine delays one of them."""
STAMPED_WITHIN_SECONDS = 30.0
"""A watch shows a pod within a second of its creation, after a broken one within half a minute."""


def fallen_offsets(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the first partition whose end offset fell: the topic was made again, or cut off."""
    for partition, at in sorted(first_cuts(run.lag).items(), key=lambda cut: cut[1])[:1]:
        column = run.lag.partitions.tolist().index(partition)
        ends = run.lag.end_offsets[:, column]
        row = run.lag.at.tolist().index(at)
        before = np.nanmax(ends[:row])
        yield (
            f"the end offset of partition {partition} fell from {before:,.0f} to {ends[row]:,.0f}"
            f" {window.when(at)}: the topic was made again, or records were cut off"
        )


def stale_readings(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the times whose readings of the lag were left out."""
    for gap in run.stale_lag:
        yield (
            f"the readings of the lag from {window.when(gap.started_at)[3:]} to"
            f" {window.when(gap.ended_at)[3:]} were stale: offsets stood still, and the pods'"
            " commits continued; they are left out"
        )


def stale_replicas(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield where the samples of the replicas differ from both pods and members, for long."""
    spans = _ready_spans(run)
    members = (record for record in run.records if isinstance(record, GroupSample))
    group, following = None, next(members, None)
    since: ReplicaSample | None = None
    for sample in run.replica_samples:
        while following is not None and following.at <= sample.at:
            group, following = following, next(members, None)
        if not window.holds(sample.at) or group is None or not run.timelines:
            continue
        ready = sum(start <= sample.at < end for start, end in spans)
        agreed = ready * run.scenario.consumer.members_per_pod == group.members
        if sample.ready == ready or not agreed or run.hidden.by("members", sample.at):
            since = None
        elif since is None:
            since = sample
        elif sample.at - since.at > LASTING_SECONDS * NANOSECONDS:
            yield (
                f"the samples have {sample.ready} Ready pods, pods' watch and group {ready}, for"
                f" {LASTING_SECONDS:.0f} s and more from {window.when(since.at)[3:]}"
            )
            return


def stamps_apart(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the first pod whose creation is stamped far from the instant at which it was seen."""
    listed = {pod for r in run.records if isinstance(r, PodsListed) for pod in r.pods}
    seen: set[str] = set()
    for record in run.records:
        if not isinstance(record, PodSeen) or record.pod in seen | listed:
            continue
        seen.add(record.pod)
        apart = (record.created_at - record.at) / NANOSECONDS
        if abs(apart) > STAMPED_WITHIN_SECONDS and not _follows_a_gap(run.records, record.at):
            yield (
                f"pod {record.pod} was seen {window.when(record.at)}, and the API server stamped"
                f" its creation {apart:+,.0f} s from that"
            )
            return


def _ready_spans(run: RunEvidence) -> list[tuple[int, float]]:
    """Return from when to when each pod was Ready and not asked to stop, by its own object."""
    deleted = {
        record.pod: record.deleted_at
        for record in run.records
        if isinstance(record, PodSeen) and record.deleted_at is not None
    }
    return [
        (timeline.ready_at, min(end for end in ends if end is not None))
        for pod, timeline in run.timelines.items()
        for ends in [(timeline.gone_at, deleted.get(pod), inf)]
        if timeline.ready_at is not None
    ]


def _follows_a_gap(records: Sequence[object], at: int) -> bool:
    """Return whether the pods were not watched in the half minute before."""
    reach = round(2 * STAMPED_WITHIN_SECONDS * NANOSECONDS)
    return any(
        isinstance(record, ReadGap) and record.what == "pods" and at - reach <= record.at <= at
        for record in records
    )
