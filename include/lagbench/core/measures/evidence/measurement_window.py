"""Find the end of the measured part of a run; ``RunEvidence.from_at`` is its start, the stream's.

The bench itself stops the consumers at the end. This is neither a scale-down by the policy nor a
rebalance of the group, so the measurement window ends before it. It ends with the phase that stops
them (``fence_run``). Without that phase it ends with the first SIGTERM after the stream after which
no member is left, unless the policy may scale to zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.measures.evidence.group_events import GroupEvent, GroupState
from lagbench.core.telemetry.phases import Phase
from lagbench.core.telemetry.records import TelemetryRecord

STOPPING_PHASE = "fence_run"


def measured_until(
    records: Sequence[TelemetryRecord],
    events: Sequence[GroupEvent],
    *,
    stream_ended_at: int | None,
    may_scale_to_zero: bool,
) -> int | None:
    """Return the end of the measurement window; None without any record."""
    stops = [
        record.at
        for record in records
        if isinstance(record, Phase) and record.name == STOPPING_PHASE and record.state == "started"
    ]
    if stops:
        return stops[0]
    if not may_scale_to_zero:
        stop_at = _final_stop(events, stream_ended_at)
        if stop_at is not None:
            return stop_at
    return max((record.at for record in records), default=None)


def _final_stop(events: Sequence[GroupEvent], stream_ended_at: int | None) -> int | None:
    """Return the first SIGTERM of the last period in which members only left, down to none."""
    state = GroupState()
    for event in events:
        state.apply(event)
    if state.members:
        return None
    first: int | None = None
    for event in reversed(events):
        if event.kind in ("joined", "died") or (event.kind == "assigned" and event.owned):
            break
        if event.kind == "sigterm" and (stream_ended_at is None or event.at >= stream_ended_at):
            first = event.at
    return first
