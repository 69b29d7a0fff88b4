"""Check that log, ledger, fence and the end of the run are whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lagbench.core.measures.doubts.doubts_of_policy import Window
from lagbench.core.measures.evidence.group_events import STOPPING_PHASE
from lagbench.core.measures.evidence.lag_readings import first_cuts
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.telemetry.records_of_programs import Phase, PodStopped, Scaled
from lagbench.core.telemetry.records_of_recorder import ReplicaSample

_POLICY_GONE_SECONDS = 5.0
"""Time for which the policy may still scale after the phase that deletes it has started."""


def end_of_the_run(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield why the measurement may not have ended where it seems to, or not with that fence.

    It ends with the phase that deletes the policy: nothing scales after it.
    """
    if not any(isinstance(r, Phase) and r.name == STOPPING_PHASE for r in run.records):
        yield f"no record of the phase {STOPPING_PHASE}, which ends a measurement"
    gone_at = window.until_at + round(_POLICY_GONE_SECONDS * NANOSECONDS)
    late = next((r.at for r in run.records if isinstance(r, Scaled) and r.at > gone_at), None)
    if late is not None:
        seconds = (late - window.until_at) / NANOSECONDS
        yield f"the replicas were scaled {seconds:.1f} s after the measurement had ended"
    if run.fence is None:
        return
    ends, committed = run.fence.get("events") or {}, run.fence.get("committed") or {}
    beyond = sorted(int(p) for p, at in committed.items() if (at or 0) > ends.get(p, 0))
    if beyond:
        yield f"at the fence the group had committed more than the log held of {beyond}"


def incomplete_fence(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the partitions of the topic that the fence lacks."""
    if run.fence is None:
        return
    for name in ("events", "committed"):
        known = {int(partition) for partition in run.fence.get(name) or {}}
        lacking = sorted(set(range(run.topic_partitions.last)) - known)
        if lacking:
            yield f"the fence has no {name} offset of partitions {lacking}"
            return


def no_lag(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield that an observed group's lag is not known at all."""
    if run.observation is not None and not run.lag.known_at:
        yield "the lag of the group was never known: a partition has no commit, or no reading"


def above_the_ceiling(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield that more replicas were wanted than the policy allows.

    One sample above the ceiling may be older than the policy; a second one means another policy.
    """
    if not run.has_policy:
        return
    above = [
        (record.spec, ceiling)
        for record in run.records
        if isinstance(record, ReplicaSample) and window.holds(record.at)
        for ceiling in [run.policies.ceiling_at(record.at)]
        if record.spec > ceiling
    ]
    if len(above) > 1:
        replicas, ceiling = max(above)
        yield f"{replicas} replicas were wanted; the policy allows {ceiling}"


def fallen_offsets(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the first partition whose end offset fell: the topic was made again, or cut off."""
    for partition, at in sorted(first_cuts(run.lag).items(), key=lambda cut: cut[1])[:1]:
        column = run.lag.partitions.tolist().index(partition)
        ends = run.lag.end_offsets[:, column]
        row = run.lag.at.tolist().index(at)
        yield (
            f"the end offset of partition {partition} fell from {np.nanmax(ends[:row]):,.0f} to"
            f" {ends[row]:,.0f} {window.when(at)}: the topic was made again, or records were cut"
            " off"
        )


def stale_readings(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the times whose readings of the lag were left out: a note."""
    for gap in run.stale_lag:
        yield (
            f"the readings of the lag from {window.second(gap.started_at)} to"
            f" {window.second(gap.ended_at)} were stale: offsets stood still, and the pods'"
            " commits continued; they are left out"
        )


def ledger_holes(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the ledger's own offsets that no row has, and the rows that are there twice.

    With such a hole messages count as lost, or as done twice, though no pod lost or repeated them.
    """
    found = run.ledger
    if found is None:
        return
    if found.landed_twice:
        yield f"{found.landed_twice:,} rows of the ledger landed twice, under one offset"
    ends = (run.fence or {}).get("processed") or {}
    has_markers = run.scenario.consumer.commit == "transactional"
    for partition, end in sorted(ends.items()):
        missing = int(end) - found.batches.get(int(partition), 0)
        if missing > 0 and not has_markers:  # a transaction's end takes an offset, too
            yield (
                f"the ledger's partition {partition} ends at offset {end}, and {missing} of its"
                " batches have no row"
            )
            return


def pods_totals(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the first pod that finished in order and had counted more than the ledger has of it."""
    by_pod = (run.accounting or {}).get("by_pod") or {}
    for record in run.records:
        if not isinstance(record, PodStopped) or not record.is_graceful:
            continue
        rows, counted = (by_pod.get(record.source) or {}).get("processed"), record.processed_total
        if rows is not None and counted is not None and counted > rows:
            yield f"{record.source} had processed {counted:,} messages, the ledger has {rows:,}"
            return
