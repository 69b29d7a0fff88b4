"""Find contradictions between the files of a run folder, and missing records.

Each file has its own source: Spark's tables come from telemetry and log, the fence from the broker,
the phases from the Dag. If two of them contradict each other, nothing is proven: such a run does
not pass, and an SLO that fails by either of them stays failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

import numpy as np

from lagbench.core.measures.evidence.actions import (
    NOTHING_HIDDEN,
    Hidden,
    PlayedAction,
    balancers_at,
)
from lagbench.core.measures.evidence.gaps import READ_WITHIN_SECONDS
from lagbench.core.measures.evidence.load_taken import FEWEST_WAITING
from lagbench.core.measures.evidence.measurement_window import STOPPING_PHASE
from lagbench.core.measures.evidence.policies_in_force import PoliciesInForce
from lagbench.core.measures.evidence.series import BIN_NS, LagSeries, RateSeries, lag_of
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.statistics import Ints
from lagbench.core.scenario import ConsumerSettings, Scenario
from lagbench.core.telemetry import (
    GroupSample,
    LagSample,
    OffsetsCommitted,
    Phase,
    PodStarted,
    PodStopped,
    ReplicaSample,
    ReplicasChanged,
    Scaled,
    StreamStarted,
    TelemetryRecord,
)

_BINS_OF_A_SECOND = NANOSECONDS // BIN_NS
_POLICY_GONE_SECONDS = 5.0
"""Time for which the policy may still scale after the phase that deletes it has started."""
_STAMP_SLACK_SECONDS = 1.0
"""Two programs on one machine may stamp the same event this far apart."""
_SESSION_SLACK_SECONDS = 10.0
"""Time for the broker to check, and for a dead pod's successor to be replaced too."""
_EARLIER_PHASES = (
    "traffic_finished",
    "lag_at_rest",
    "actions_played",
    "replicas_settled",
    "stop_tail",
    "lag_drained",
    "group_settled",
)
_SHOWN_WITHIN_SECONDS = 4.0
"""Samples come once a second, and may be read that long before the stamp of a scaling."""
_EMPTY_GROUP_SECONDS = 10.0
"""Longer than a coordinator takes to load its groups after the broker's start."""
_MISSING_MEMBERS_SECONDS = 60.0
"""Longer than any session timeout: a Ready pod is a member by then."""


def contradictions_of_the_end(
    records: Sequence[TelemetryRecord], fence: Mapping[str, Any] | None, until_at: int
) -> list[str]:
    """Return why the measurement window may not end at ``until_at``, or why the fence disagrees.

    The window ends with the phase that deletes the policy: nothing scales after it, and the fence
    is taken after it.
    """
    reasons = []
    if not any(isinstance(r, Phase) and r.name == STOPPING_PHASE for r in records):
        reasons.append(f"no record of the phase {STOPPING_PHASE}, which ends a measurement")
    slack = round(_STAMP_SLACK_SECONDS * NANOSECONDS)
    gone_at = until_at + round(_POLICY_GONE_SECONDS * NANOSECONDS)
    late = [r for r in records if isinstance(r, Scaled) and r.at > gone_at]
    if late:
        seconds = (late[0].at - until_at) / NANOSECONDS
        reasons.append(f"the replicas were scaled {seconds:.1f} s after the measurement had ended")
    after = [r for r in records if isinstance(r, Phase) and r.name in _EARLIER_PHASES]
    last = max(after, key=lambda record: record.at, default=None)
    if last is not None and last.at > until_at + slack:
        seconds = (last.at - until_at) / NANOSECONDS
        reasons.append(f"the phase {last.name} lasted {seconds:.1f} s beyond {STOPPING_PHASE}")
    if fence is None:
        return reasons
    fenced_at = fence.get("fenced_at")
    if fenced_at is None:
        reasons.append("the fence has no time")
    elif fenced_at < until_at - slack:
        seconds = (until_at - fenced_at) / NANOSECONDS
        reasons.append(f"the fence was taken {seconds:.1f} s before the measurement had ended")
    ends, committed = fence.get("events") or {}, fence.get("committed") or {}
    beyond = sorted(
        (int(p) for p, at in committed.items() if at is not None and at > ends.get(p, 0))
    )
    if beyond:
        reasons.append(f"at the fence the group had committed more than the log held of {beyond}")
    return reasons


def contradictions_of_lag(
    records: Sequence[TelemetryRecord], lag: LagSeries, *, first_partitions: int
) -> list[str]:
    """Return where the table ``lag`` and the recorder's own records have different offsets.

    Rows that only one of the two has are ignored here: a missing row is a missing reading.
    """
    column = {int(partition): place for place, partition in enumerate(lag.partitions)}
    row = {int(at): place for place, at in enumerate(lag.at)}
    reported = [
        (row[record.at], column[partition], end, np.nan if committed is None else committed)
        for record in records
        if isinstance(record, LagSample) and record.at in row
        for partition, end, committed in record.partitions
        if partition in column
    ]
    if not reported:
        return []
    rows, columns, ends, commits = (np.asarray(part) for part in zip(*reported, strict=True))
    rows, columns = rows.astype(np.int64), columns.astype(np.int64)
    lags = lag_of(ends, commits, lag.partitions[columns] >= first_partitions)
    shown_ends, shown_lags = lag.end_offsets[rows, columns], lag.by_partition[rows, columns]
    differ = _differ(shown_ends, ends) | _differ(shown_lags, lags)
    count = int(np.unique(rows[differ]).size)
    if not count:
        return []
    return [f"the table lag and the recorder's records differ in {count} samples"]


def contradictions_of_commits(
    lag: LagSeries, rate: RateSeries, lost: int, *, commits_first: bool
) -> list[str]:
    """Return where the group had committed more than it had done by then.

    With ``commits_first`` (automatic commits) this is allowed.
    """
    if commits_first or not rate.processed.size:
        return []
    done = np.concatenate([[0], np.cumsum(rate.processed)])
    committed = (lag.end_offsets - lag.by_partition).sum(axis=1)
    ends = (lag.at + round(READ_WITHIN_SECONDS * NANOSECONDS) - rate.started_at) // BIN_NS
    until = done[np.clip(ends, 0, done.size - 1)]
    ahead = np.nan_to_num(committed - until - lost, nan=0.0)
    worst = int(ahead.max(initial=0.0))
    if worst <= FEWEST_WAITING:
        return []
    return [f"the group had committed {worst:,} messages more than it had done"]


def contradictions_of_members(
    records: Sequence[TelemetryRecord],
    until_at: int,
    *,
    session_seconds: float,
    members_per_pod: int = 1,
    hidden: Hidden = NOTHING_HIDDEN,
) -> list[str]:
    """Return where the broker's members and the Deployment's replicas contradict each other.

    Samples in which an action hides the number of members are left out.
    """
    samples = [r for r in records if isinstance(r, ReplicaSample) and r.at <= until_at]
    groups = [r for r in records if isinstance(r, GroupSample) and r.at <= until_at]
    steps = [r.replicas_after for r in records if isinstance(r, Scaled | ReplicasChanged)]
    if not samples or not groups:
        return []
    most = max(*(sample.spec for sample in samples), *steps, 1)
    at = np.asarray([sample.at for sample in samples])
    places = [int(np.searchsorted(at, group.at, side="right")) - 1 for group in groups]
    ready = [samples[place].ready if place >= 0 else 0 for place in places]
    # A dead pod stays a member until its session ends.
    extra = [group.members - most * members_per_pod for group in groups]
    found = _lasting(groups, extra, session_seconds + _SESSION_SLACK_SECONDS, hidden)
    if found is not None:
        members = groups[found].members
        return [f"the group had {members} members, but never more than {most} replicas"]
    due = [count * members_per_pod for count in ready]
    short = [count - group.members for count, group in zip(due, groups, strict=True)]
    found = _lasting(groups, short, _MISSING_MEMBERS_SECONDS, hidden)
    if found is not None:
        members = groups[found].members
        return [f"{ready[found]} pods were Ready for a minute, but the group had {members}"]
    return []


def _lasting(
    groups: Sequence[GroupSample], counts: Sequence[int], seconds: float, hidden: Hidden
) -> int | None:
    """Return the first sample at which ``counts`` were above 0 for longer than ``seconds``."""
    since: int | None = None
    for place, (group, count) in enumerate(zip(groups, counts, strict=True)):
        if hidden.by("members", group.at, count=count):
            continue
        if count <= 0:
            since = None
        elif since is None:
            since = group.at
        elif group.at - since > seconds * NANOSECONDS:
            return place
    return None


def contradictions_of_an_empty_group(
    records: Sequence[TelemetryRecord],
    rate: RateSeries,
    until_at: int,
    hidden: Hidden = NOTHING_HIDDEN,
) -> list[str]:
    """Return where work was done for long while the broker reported no member of the group.

    Samples in which an action hides the number of members are left out.
    """
    since: int | None = None
    for group in (r for r in records if isinstance(r, GroupSample) and r.at <= until_at):
        if hidden.by("members", group.at):
            continue
        place = (group.at - rate.started_at) // BIN_NS
        second = rate.processed[max(0, place - _BINS_OF_A_SECOND) : max(0, place)]
        if group.members or not second.sum():
            since = None
        elif since is None:
            since = group.at
        elif group.at - since > _EMPTY_GROUP_SECONDS * NANOSECONDS:
            return ["messages were processed while the broker reported no member of the group"]
    return []


def contradictions_of_scalings(records: Sequence[TelemetryRecord], until_at: int) -> list[str]:
    """Return a scaling that the recorder's samples of the next seconds do not show."""
    scalings = [r for r in records if isinstance(r, Scaled) and r.at <= until_at]
    samples = [r for r in records if isinstance(r, ReplicaSample)]
    at = np.asarray([sample.at for sample in samples], dtype=np.int64)
    nexts_at = [*(scaling.at for scaling in scalings), until_at][1:]
    for scaling, next_at in zip(scalings, nexts_at, strict=True):
        last_at = min(next_at, scaling.at + round(_SHOWN_WITHIN_SECONDS * NANOSECONDS))
        first, last = np.searchsorted(at, [scaling.at, last_at])
        shown = {sample.spec for sample in samples[first:last]}
        if last - first > 1 and scaling.replicas_after not in shown:
            reported = f"{scaling.replicas_before} to {scaling.replicas_after} by {scaling.by}"
            return [f"no sample shows the scaling of {reported}"]
    return []


def contradictions_of_policy(
    records: Sequence[TelemetryRecord],
    policies: PoliciesInForce,
    *,
    from_at: int,
    until_at: int,
) -> list[str]:
    """Return where the replicas did not keep the limits.

    One sample above the ceiling may be older than the policy; a second one means another policy.
    """
    above = [
        (record.spec, ceiling)
        for record in records
        if isinstance(record, ReplicaSample) and from_at <= record.at <= until_at
        for ceiling in [policies.ceiling_at(record.at)]
        if record.spec > ceiling
    ]
    if len(above) > 1:
        replicas, ceiling = max(above)
        return [f"{replicas} replicas were wanted; the policy allows {ceiling}"]
    return []


def contradictions_of_plan(
    records: Sequence[TelemetryRecord], scenario: Scenario, actions: Sequence[PlayedAction] = ()
) -> list[str]:
    """Return where pods or producer report other settings than the scenario and its actions."""
    settings, reasons = scenario.consumer, []
    for record in (record for record in records if isinstance(record, PodStarted)):
        costs = (record.process_ms, settings.mean_process_ms), (record.cpu_ms, settings.cpu_ms)
        is_same_cost = all(isclose(*pair, rel_tol=1e-4) for pair in costs)
        balancers = balancers_at(record.at, scenario, actions)
        reported = (record.concurrency, record.balancer)
        if not is_same_cost or reported not in {(settings.concurrency, b) for b in balancers}:
            asked = (settings.concurrency, " or ".join(sorted(balancers)))
            ran, said = (
                f"{wait:g} ms, {cpu:g} ms of CPU, concurrency {of[0]}, {of[1]}"
                for wait, cpu, of in zip(*costs, (reported, asked), strict=False)
            )
            reasons.append(f"{record.source} ran with {ran}; the scenario has {said}")
            break
    reasons += _other_ways(records, settings)[:1]
    seeds = {record.seed for record in records if isinstance(record, StreamStarted)}
    if seeds - {scenario.seed}:
        reasons.append(f"the producer's seed was {min(seeds)}, the scenario's is {scenario.seed}")
    return reasons


def _other_ways(records: Sequence[TelemetryRecord], planned: ConsumerSettings) -> list[str]:
    """Return the pods that joined, committed or ended in another way than the scenario's."""
    found = []
    for record in records:
        ran: tuple[str, str] | None = None
        if isinstance(record, PodStarted):
            is_static = record.instance_id is not None
            if is_static is not planned.static_membership:
                ran = ("static" if is_static else "dynamic", "membership")
        elif isinstance(record, OffsetsCommitted) and record.cause in ("interval", "auto"):
            if (record.cause == "auto") is not (planned.commit == "auto"):
                ran = ("automatic" if record.cause == "auto" else "own", "commits")
        elif isinstance(record, PodStopped) and record.is_graceful > planned.graceful_shutdown:
            ran = ("a graceful", "shutdown")
        if ran is not None:
            found.append(f"{record.source} had {' '.join(ran)}; the scenario has another")
    return found


def contradictions_of_time_lag(
    accounting: Mapping[str, Any] | None, latest_seconds: float | None
) -> list[str]:
    """Return where the percentiles of the time lag contradict each other, or the table latency.

    ``latest_seconds`` is the longest time lag of that table; None: it has none.
    """
    found = (accounting or {}).get("time_lag_seconds") or {}
    known = [found[name] for name in ("p50", "p95", "p99", "max") if found.get(name) is not None]
    if known != sorted(known):
        return [f"the percentiles of the time lag do not ascend: {known}"]
    after = ((accounting or {}).get("time_lag_seconds_after") or {}).get("max")
    longest = max([*known[-1:], *([] if after is None else [after])], default=None)
    if longest is None or latest_seconds is None:
        return []
    if abs(longest - latest_seconds) <= _STAMP_SLACK_SECONDS:
        return []
    return [f"the longest time lag is {longest:.1f} s, in the table latency {latest_seconds:.1f} s"]


def _differ(left: Any, right: Any) -> Any:
    return ~np.isnan(left) & ~np.isnan(right) & (left != right)


def timeline_gaps(bins: Ints, offered: int, accounting: Mapping[str, Any] | None) -> str:
    """Return the gaps of the table ``timeline``; empty: it is complete.

    ``bins`` are the instants of its rows, ``offered`` the sum of their offered messages. Spark
    writes a row for every bin of 100 ms from the first to the last, with every message of the log:
    the group's work in a bin without a row is unknown.
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
    return f"the table timeline has {offered:,} messages, the accounting of {in_log:,}"
