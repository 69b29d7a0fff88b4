"""Where the files of a run folder contradict each other, or lack what every run records.

Each file is somebody's word: Spark's tables are made of telemetry and log, the fence of the broker,
the phases of the Dag. Where two of them tell of different runs nothing is proven: such a run does
not pass, and what fails by either of them stays failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lagbench.core.lag import LagSeries
from lagbench.core.measured_stretch import STOPPING_PHASE
from lagbench.core.measures import NANOSECONDS
from lagbench.core.rate_dip import BIN_NS
from lagbench.core.statistics import Ints
from lagbench.core.telemetry import (
    LagSample,
    PartitionsAssigned,
    Phase,
    Scaled,
    TelemetryRecord,
)

NAMED_PODS = 3
_STAMP_SLACK_SECONDS = 1.0
"""Two programs stamp the same thing as far apart, on one machine."""


def contradictions_of_the_end(
    records: Sequence[TelemetryRecord], fence: Mapping[str, Any] | None, until_at: int
) -> list[str]:
    """Return why the measured stretch may not have ended at ``until_at``, or not as the fence says.

    The stretch ends with the phase that deletes the policy: nothing scales after it, and the fence
    is taken behind it.
    """
    reasons = []
    if not any(isinstance(r, Phase) and r.name == STOPPING_PHASE for r in records):
        reasons.append(f"no record of the phase {STOPPING_PHASE}, with which a measurement ends")
    slack = round(_STAMP_SLACK_SECONDS * NANOSECONDS)
    late = [r for r in records if isinstance(r, Scaled) and r.at > until_at + slack]
    if late:
        seconds = (late[0].at - until_at) / NANOSECONDS
        reasons.append(f"the replicas were scaled {seconds:.1f} s after the measurement had ended")
    if fence is None:
        return reasons
    fenced_at = fence.get("fenced_at")
    if fenced_at is not None and fenced_at < until_at - slack:
        seconds = (until_at - fenced_at) / NANOSECONDS
        reasons.append(f"the fence was taken {seconds:.1f} s before the measurement had ended")
    ends, committed = fence.get("events") or {}, fence.get("committed") or {}
    beyond = sorted(
        (int(p) for p, at in committed.items() if at is not None and at > ends.get(p, 0))
    )
    if beyond:
        reasons.append(f"at the fence the group had committed more than the log held of {beyond}")
    return reasons


def contradictions_of_lag(records: Sequence[TelemetryRecord], lag: LagSeries) -> list[str]:
    """Return that the table of lag has other offsets than the recorder's own records.

    What only one of the two has says nothing here: a row that is missing was not seen.
    """
    column = {int(partition): place for place, partition in enumerate(lag.partitions)}
    row = {int(at): place for place, at in enumerate(lag.at)}
    told = [
        (row[record.at], column[partition], end, np.nan if committed is None else committed)
        for record in records
        if isinstance(record, LagSample) and record.at in row
        for partition, end, committed in record.partitions
        if partition in column
    ]
    if not told:
        return []
    rows, columns, ends, commits = (np.asarray(part) for part in zip(*told, strict=True))
    rows, columns = rows.astype(np.int64), columns.astype(np.int64)
    lags = np.where(ends == 0, 0.0, np.maximum(ends - commits, 0.0))
    shown_ends, shown_lags = lag.end_offsets[rows, columns], lag.by_partition[rows, columns]
    differ = _differ(shown_ends, ends) | _differ(shown_lags, lags)
    count = int(np.unique(rows[differ]).size)
    if not count:
        return []
    return [f"the table lag and the recorder's records differ in {count} samples"]


def _differ(left: Any, right: Any) -> Any:
    return ~np.isnan(left) & ~np.isnan(right) & (left != right)


def timeline_gaps(bins: Ints, offered: int, accounting: Mapping[str, Any] | None) -> str:
    """Return what the table timeline lacks; empty: it is whole.

    ``bins`` are the instants of its rows, ``offered`` the sum of what they say was offered. Spark
    writes a row for every bin of 100 ms from the first to the last, with every message of the log:
    what the group did in one without a row is not known.
    """
    if not bins.size:
        return ""
    due = int((bins.max() - bins.min()) // BIN_NS) + 1
    missing = due - int(np.unique(bins).size)
    if missing:
        return f"the table timeline lacks {missing} of {due} bins"
    in_log = (accounting or {}).get("in_log")
    if in_log is None or offered == in_log:
        return ""
    return f"the table timeline tells of {offered:,} messages, the accounting of {in_log:,}"


def unrecorded_members(
    records: Sequence[TelemetryRecord], accounting: Mapping[str, Any] | None
) -> str:
    """Return which pods worked without any record of what they were assigned; empty: none.

    When they came and what they took over is not known, so nor is what a scale step should have
    done.
    """
    assigned = {record.source for record in records if isinstance(record, PartitionsAssigned)}
    by_pod = (accounting or {}).get("by_pod") or {}
    worked = {pod for pod, work in by_pod.items() if work.get("processed")}
    unknown = sorted(worked - assigned)
    if not assigned or not unknown:  # none at all: what needs them says so itself
        return ""
    more = len(unknown) - NAMED_PODS
    named = ", ".join(unknown[:NAMED_PODS]) + (f" and {more} more" if more > 0 else "")
    return f"what partitions were assigned to {named} is not recorded, but they worked"
