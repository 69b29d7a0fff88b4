"""Compare what broker, API server, recorder and pods each say of the group and its members."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import inf, isclose

import numpy as np

from lagbench.core.measures.doubts.doubts_of_policy import Window
from lagbench.core.measures.evidence.lag_readings import BIN_NS
from lagbench.core.measures.evidence.played_actions import NOTHING_HIDDEN, Hidden, balancers_at
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.scenario.consumer_kinds import kind_of
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    OffsetsCommitted,
    PartitionsAssigned,
    PartitionsRevoked,
    PodStarted,
    PodStopped,
    Scaled,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMembers,
    GroupSample,
    PodSeen,
    PodsListed,
    ReadGap,
    ReplicaSample,
    ReplicasChanged,
)

AGREED_WITHIN_SECONDS = 12.0
"""Members are read at least every ten seconds, and an assignment reaches its pod a second later."""
LASTING_SECONDS = 10.0
"""Readings of two sources may differ for as long as a busy machine delays one of them."""
STAMPED_WITHIN_SECONDS = 30.0
"""A watch shows a pod within a second of its creation, after a broken one within half a minute."""
OFF_SECONDS = 5.0
"""A record waits in a client for milliseconds; a bound on two clocks is far below this."""
_SESSION_SLACK_SECONDS = 10.0
"""Time for the broker to check, and for a dead pod's successor to be replaced too."""
_EMPTY_GROUP_SECONDS = 10.0
"""Longer than a coordinator takes to load its groups after the broker's start."""
_MISSING_MEMBERS_SECONDS = 60.0
"""Longer than any session timeout: a Ready pod is a member by then."""


def members_and_replicas(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield where the broker's members and the Deployment's replicas contradict each other."""
    consumer = run.scenario.consumer
    if kind_of(consumer.kind).has_members:
        yield from contradictions_of_members(
            run.records,
            window.until_at,
            session_seconds=run.scenario.longest_session_seconds,
            members_per_pod=consumer.members_per_pod,
            hidden=run.hidden,
        )


def contradictions_of_members(
    records: Sequence[TelemetryRecord],
    until_at: int,
    *,
    session_seconds: float,
    members_per_pod: int = 1,
    hidden: Hidden = NOTHING_HIDDEN,
) -> list[str]:
    """Return the first such contradiction; a dead pod stays a member until its session ends.

    Samples in which an action hides the number of members are left out.
    """
    samples = [r for r in records if isinstance(r, ReplicaSample) and r.at <= until_at]
    groups = [r for r in records if isinstance(r, GroupSample) and r.at <= until_at]
    steps = [r.replicas_after for r in records if isinstance(r, Scaled | ReplicasChanged)]
    if not samples or not groups:
        return []
    most = max(*(sample.spec for sample in samples), *steps, 1)
    places = np.searchsorted([sample.at for sample in samples], [g.at for g in groups], "right")
    ready = [samples[place - 1].ready if place else 0 for place in places.tolist()]
    extra = [group.members - most * members_per_pod for group in groups]
    found = _lasting(groups, extra, session_seconds + _SESSION_SLACK_SECONDS, hidden)
    if found is not None:
        members = groups[found].members
        return [f"the group had {members} members, but never more than {most} replicas"]
    short = [of * members_per_pod - group.members for of, group in zip(ready, groups, strict=True)]
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


def empty_group(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield where work was done for long while the broker reported no member of the group."""
    if not kind_of(run.scenario.consumer.kind).has_members:
        return
    groups = [r for r in run.records if isinstance(r, GroupSample) and r.at <= window.until_at]
    rate, counts = run.rate, []
    for group in groups:
        place = max(0, (group.at - rate.started_at) // BIN_NS)
        done = rate.processed[max(0, place - NANOSECONDS // BIN_NS) : place].sum()
        counts.append(0 if group.members else int(done))
    shown = [at for at, group in enumerate(groups) if not run.hidden.by("members", group.at)]
    groups, counts = [groups[at] for at in shown], [counts[at] for at in shown]
    if _lasting(groups, counts, _EMPTY_GROUP_SECONDS, NOTHING_HIDDEN) is not None:
        yield "messages were processed while the broker reported no member of the group"


def other_settings(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield where pods or producer report other settings than the scenario and its actions."""
    settings = run.scenario.consumer
    for record in run.records:
        if isinstance(record, StreamStarted) and record.seed != run.scenario.seed:
            seeds = f"the producer's seed was {record.seed}, the scenario's is {run.scenario.seed}"
            yield seeds
            return
        ran = ""
        if isinstance(record, PodStarted):
            ran = _other_start(record, run)
        elif isinstance(record, OffsetsCommitted) and record.cause in ("interval", "auto"):
            if (record.cause == "auto") is not (settings.commit == "auto"):
                ran = f"commits by {record.cause}"
        elif isinstance(record, PodStopped) and record.is_graceful > settings.graceful_shutdown:
            ran = "a graceful shutdown"
        if ran:
            yield f"{record.source} had {ran}; the scenario has another"
            return


def _other_start(record: PodStarted, run: RunEvidence) -> str:
    """Return how a pod was started otherwise than the scenario says; empty: it was not."""
    settings = run.scenario.consumer
    balancers = balancers_at(record.at, run.scenario, run.actions)
    for name, found, is_asked in (
        (
            "ms",
            record.process_ms,
            isclose(record.process_ms, settings.mean_process_ms, rel_tol=1e-4),
        ),
        ("ms of CPU", record.cpu_ms, isclose(record.cpu_ms, settings.cpu_ms, rel_tol=1e-4)),
        ("of concurrency", record.concurrency, record.concurrency == settings.concurrency),
        ("work", record.work, record.work == settings.work),
        ("as balancer", record.balancer, record.balancer in balancers),
        (
            "as static member",
            record.instance_id,
            (record.instance_id is not None) is settings.static_membership,
        ),
    ):
        if not is_asked:
            return f"{found} {name}"
    return ""


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
                f" {LASTING_SECONDS:.0f} s and more from {window.second(since.at)}"
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
        (timeline.ready_at, min(timeline.gone_at or inf, deleted.get(pod, inf)))
        for pod, timeline in run.timelines.items()
        if timeline.ready_at is not None
    ]


def stamps_apart(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the first pod whose creation is stamped far from the instant at which it was seen."""
    seen = {pod for r in run.records if isinstance(r, PodsListed) for pod in r.pods}
    gaps = [r.at for r in run.records if isinstance(r, ReadGap) and r.what == "pods"]
    reach = round(2 * STAMPED_WITHIN_SECONDS * NANOSECONDS)
    for record in run.records:
        if not isinstance(record, PodSeen) or record.pod in seen:
            continue
        seen.add(record.pod)
        apart = (record.created_at - record.at) / NANOSECONDS
        was_unwatched = any(record.at - reach <= at <= record.at for at in gaps)
        if abs(apart) > STAMPED_WITHIN_SECONDS and not was_unwatched:
            yield (
                f"pod {record.pod} was seen {window.when(record.at)}, and the API server stamped"
                f" its creation {apart:+,.0f} s from that"
            )
            return


def two_owners(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the first reading in which the broker gives one partition to two members."""
    for record in run.records:
        if not isinstance(record, GroupMembers) or not window.holds(record.at):
            continue
        counts = Counter(p for member in record.members for p in member.partitions)
        twice = min((p for p, count in counts.items() if count > 1), default=None)
        if twice is not None:
            owners = [m.client_id for m in record.members if twice in m.partitions]
            when = window.when(record.at)
            yield f"the broker had two owners of partition {twice} {when}: {' and '.join(owners)}"
            return


def other_owners(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield where the broker's owners differ from the pods' own reports, for long."""
    if not (run.members_are_pods and kind_of(run.scenario.consumer.kind).reports_owners):
        return
    moves: dict[str, list[tuple[int, frozenset[int]]]] = defaultdict(list)
    for record in run.records:
        if isinstance(record, PartitionsAssigned | PartitionsRevoked):
            moves[record.source].append((record.at, frozenset(record.owned)))
    # In a rebalance a coordinator names members without what they still hold.
    stable = {r.at for r in run.records if isinstance(r, GroupSample) and r.state == "stable"}
    since: dict[str, int] = {}
    for record in run.records:
        if not isinstance(record, GroupMembers) or not window.holds(record.at):
            continue
        if record.at not in stable:
            since.clear()
            continue
        for member in record.members:
            pod, own = member.client_id, moves.get(member.client_id)
            place = bisect_right(own, record.at, key=lambda move: move[0]) if own else 0
            told = own[place - 1][1] if own and place else None
            if told is None or told == frozenset(member.partitions):
                since.pop(pod, None)
            elif record.at - since.setdefault(pod, record.at) > AGREED_WITHIN_SECONDS * NANOSECONDS:
                yield (
                    f"the broker gave {pod} partitions {sorted(member.partitions)} from"
                    f" {window.second(since[pod])} on, the pod itself reported {sorted(told)}"
                )
                return


def pod_clocks(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield each pod whose clock cannot be right: by its own object, or by the log.

    Records of all sources lie in one topic in the order in which the broker took them, and the
    recorder writes there all the time. So the log itself says when a pod's record was written.
    """
    stamps_of: dict[str, list[int]] = defaultdict(list)
    for record in run.records:
        stamps_of[record.source].append(record.at)
    limit = OFF_SECONDS * NANOSECONDS
    for pod, timeline in run.timelines.items():
        stamps = stamps_of[pod] or [timeline.created_at]
        clock = run.clocks.of_pod(pod)  # what is known of it is taken off every stamp
        known_seconds = 0.0 if clock is None else clock.shift_ns / NANOSECONDS
        off = run.clock_skews.get(pod, known_seconds) - known_seconds
        early = timeline.created_at - min(stamps)
        late = 0 if timeline.gone_at is None else max(stamps) - timeline.gone_at
        how = ""
        if abs(off) > OFF_SECONDS:
            how = f"{off:+.1f} s off: by the order of the records in the log"
        elif early > limit:
            when = window.when(timeline.created_at)
            how = f"off: it reported {early / NANOSECONDS:.1f} s before it was created {when}"
        elif late > limit:
            when = window.when(timeline.gone_at or 0)
            how = f"off: it reported {late / NANOSECONDS:.1f} s after its end {when}"
        if how:
            yield f"the clock of {pod} is {how}"
