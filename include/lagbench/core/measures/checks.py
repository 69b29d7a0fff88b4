"""Check claims that must hold for every run, whatever SLOs its scenario has.

An accounting that contradicts itself leaves the verdict undetermined. The SLOs on messages judge
bad messages, within their limits. A rebalance that no scaling explains is part of the measurement:
the report notes it, and the SLOs judge its cost. The report also notes a run that ended before the
replicas had come down: the cost of that scale-down is not included in any measure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lagbench.core.measures.accounting.accounting import Accounting
from lagbench.core.measures.accounting.accounting_sums import broken_sums
from lagbench.core.measures.doubts.doubts_of_group import contradictions_of_members
from lagbench.core.measures.evidence.lag_readings import first_cuts, gaps_between, gaps_text
from lagbench.core.measures.evidence.observed_group import member_pods
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.rebalance_episodes import WatchedGroup
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.scenario.actions import CLIENTS_SESSION_SECONDS
from lagbench.core.telemetry.records_of_recorder import GroupSample
from lagbench.shared_with_spark import message_classes

NAMED_EPISODES = 3
NAMED_STRANGERS = 2
_MUST_BE_KNOWN = (
    "lost",
    "not_in_log",
    "expired",
    "log_holes",
    "unknown_message",
    "duplicated",
    "reordered",
    "zombie",
    "not_yet_consumed",
    "produced_twice",
)
_AGAINST = (
    *_MUST_BE_KNOWN,
    *message_classes.FOREIGN_RECORDS,
    "zombie_in_doubt",
    "reordered_in_doubt",
    "not_in_log_failed",
    "not_in_log_unknown",
    "outside_run",
)
"""Each of them speaks against the claim that every acknowledged message was processed once."""
_OF_TOPIC = {
    message_classes.FOREIGN: ("events", "records in the log are not events of this run"),
    message_classes.FOREIGN_LEDGER: (
        "processed",
        "records in the ledger's topic are not ledger records",
    ),
    message_classes.FOREIGN_TELEMETRY: ("telemetry", "telemetry records are not of this run"),
}
_WITHOUT_HEADER = "records of the output lack the run's header: your consumer must pass headers on"


@dataclass(frozen=True, slots=True)
class Check:
    """A claim's outcome; ``reasons`` go to the verdict, except those an SLO already reports."""

    holds: bool | None  # None: not known
    numbers: Mapping[str, Any]
    reasons: tuple[str, ...]


def reconciliation(found: Accounting, *, has_work: bool = True, is_output: bool = False) -> Check:
    """Check that every acknowledged message is in the log once and was processed once.

    Without ``has_work`` nothing says which messages were processed, so only the log is checked.
    With ``is_output`` the ledger's topic is the output of a user's consumer.
    """
    against = {name: count for name in _AGAINST if (count := getattr(found, name))}
    if found.failed_unplanned:
        against["failed"] = found.failed_unplanned
    settled = found.processed_distinct
    if settled is not None:
        settled += found.failed or 0
    if has_work and settled != found.in_log:
        against["processed_distinct"] = found.processed_distinct
    if found.produced_acked is not None and found.produced_acked != found.in_log:
        against["produced_acked"] = found.produced_acked
    names = (*_MUST_BE_KNOWN, "produced_acked")
    unknown = [name for name in names if getattr(found, name) is None]
    reasons = tuple(_beside_the_slos(found, has_work=has_work, is_output=is_output))
    numbers = {
        "produced": found.produced_acked,
        "in_log": found.in_log,
        "processed": found.processed_distinct,
        "against": against,
        "not_known": unknown,
    }
    return Check(False if against else None if unknown or reasons else True, numbers, reasons)


def _beside_the_slos(found: Accounting, *, has_work: bool, is_output: bool) -> Iterator[str]:
    if found.in_log is None or (has_work and found.processed_distinct is None):
        yield "there is no accounting"
        return
    if not found.in_log:
        yield "the log is empty: the consumers got no message"
    if found.produced_twice:
        twice = found.produced_twice
        yield f"{twice:,} messages are in the log twice: the load differed from the plan"
    yield from _strange_records(found, has_work=has_work, is_output=is_output)
    if found.outside_run:
        yield f"{found.outside_run:,} processings are stamped before or after the run"
    if found.lacks:
        yield f"accounting.json lacks {', '.join(found.lacks)}"
    for text in (*broken_sums(found.model_dump()), *found.broken_classes):
        yield f"the accounting contradicts itself: {text}"


def _strange_records(found: Accounting, *, has_work: bool, is_output: bool) -> Iterator[str]:
    """Yield how many records of each topic do not belong to the run, and where the first are."""
    for name, (topic, text) in _OF_TOPIC.items():
        is_ledger, count = name == message_classes.FOREIGN_LEDGER, getattr(found, name)
        if not count or (is_ledger and not has_work):  # nobody reads that topic then
            continue
        of_topic = [one for one in found.strangers if one.topic == topic]
        places = [
            f"partition {one.partition}, offset {one.offset}, {one.detail}"
            for one in of_topic
            if one.partition is not None
        ]
        first = f" (first: {'; '.join(places[:NAMED_STRANGERS])})" if places else ""
        yield f"{count:,} {_WITHOUT_HEADER if is_ledger and is_output else text}{first}"


def moved_back(measures: Measures) -> str:
    """Return how often the group's committed offset was set back; empty: it never was."""
    moves = measures.accounting.commit_moves
    if not moves:
        return ""
    first, again = moves[0], measures.accounting.repeated_at_least
    return (
        f"the group's committed offset moved back {len(moves)} times, so at least {again:,} "
        f"messages were to be done again; first of partition {first.partition} from "
        f"{first.from_offset:,} to {first.to_offset:,}, seen {measures.moment(first.at)}"
    )


def rebalance_count(measures: Measures) -> Check:
    """Check that from the stream's start on the group rebalanced only because it was scaled.

    No rebalance may lack a cause or result from a pod's death. Scaling may cause at most as many
    rebalances as pods were added and removed. If no rebalance was seen, not even the group's first,
    the result is unknown. Before the stream pods may join one by one: no load is measured then.
    """
    from_at, until_at = measures.measured_from_at or 0, measures.measured_until_at
    episodes = [
        episode
        for episode in measures.rebalances.episodes
        if from_at <= episode.started_at and (until_at is None or episode.started_at <= until_at)
    ]
    causes = Counter(episode.trigger for episode in episodes)
    by_scaling = causes["scale_up"] + causes["scale_down"]
    moved = sum(abs(c.replicas_after - c.replicas_before) for c in measures.scaling.changes)
    reasons = []
    unexplained = [episode for episode in episodes if episode.trigger in ("other", "pod_death")]
    if unexplained:
        named = "; ".join(
            f"{measures.moment(episode.started_at)} {episode.trigger_text}"
            for episode in unexplained[:NAMED_EPISODES]
        )
        left = len(unexplained) - NAMED_EPISODES
        more = f"; {left} more" if left > 0 else ""
        reasons.append(f"the group rebalanced without a scaling: {named}{more}")
    if by_scaling > moved:
        reasons.append(f"{by_scaling} rebalances by scaling, but {moved} pods added or removed")
    holds: bool | None = not reasons
    if not measures.rebalances.episodes:
        holds, reasons = None, ["no rebalance of the group was recorded, not even the first"]
    numbers = {
        "rebalances": None if measures.rebalances.count is None else len(episodes),
        "by_cause": dict(causes),
        "pods_added_or_removed": moved,
    }
    return Check(holds, numbers, tuple(reasons))


def rebalances_within(
    watched: WatchedGroup, *, max_rebalances: int, ended_at_seconds: float, gap_seconds: float
) -> Check:
    """Check that a watched group rebalanced at most so often, from its first look to the end.

    Too many is certain, whatever was missed. Few are unknown if the group was not looked at for
    more than ``gap_seconds``, or if it never had a member.
    """
    gap = watched.until(ended_at_seconds)
    numbers = {
        "rebalances": watched.rebalances,
        "max_rebalances": max_rebalances,
        "looks": watched.looks,
        "longest_gap_seconds": round(gap, 3),
        "most_members": watched.most_members,
    }
    if watched.rebalances > max_rebalances:
        seen = f"{watched.rebalances} rebalances were seen, {max_rebalances} are allowed"
        return Check(False, numbers, (seen,))
    reasons = []
    if watched.most_members == 0:
        reasons.append("the group had no member at any look")
    if gap > gap_seconds:
        reasons.append(
            f"the group was not looked at for {gap:.1f} s (allowed: {gap_seconds:g} s), so "
            f"{watched.rebalances} is only the number that was seen"
        )
    return Check(None if reasons else True, numbers, tuple(reasons))


def cut_off_scale_down(measures: Measures, tail_ended_by: str = "") -> str:
    """Return that the replicas were not back at the policy's floor at the end; empty: they were.

    A cron trigger may hold them above the floor, so a run that did not reach it is still judged.
    """
    end = measures.end_state
    if end.is_at_floor is None:
        return "it is unknown whether the replicas returned to the floor"
    if end.is_at_floor:
        return ""
    if tail_ended_by == "settled":
        return (
            f"the run ended at rest with {end.replicas} replicas, floor {end.floor_replicas}: the "
            "base load after the spike keeps them"
        )
    return (
        f"{end.replicas} replicas were wanted at the end, floor {end.floor_replicas}: "
        "the rest of the scale-down is not included in any measure (timeouts.settle_seconds "
        "limits the wait for it)"
    )


def observation_notes(run: RunEvidence, found: Measures) -> Iterator[str]:
    """Return what a reader of an observed run should know."""
    if run.observation is None or found.measured_from_at is None:
        return
    until_at = found.measured_until_at or found.measured_from_at
    if run.observation.policy_unknown:
        yield f"policy unknown: {run.observation.policy_unknown}"
    yield run.work.note
    yield _cuts(run, found)
    rate, source = run.observation.pod_rate_per_second, run.observation.pod_rate_source
    known = "unknown" if rate is None else f"{rate:,.0f}/s"
    yield f"rate of one pod: {known} ({source})"
    if found.spikes_unknown:
        yield found.spikes_unknown
    elif not found.load.spikes:
        yield "no period of the load was above the capacity of the pods at the floor: no spike"
    gaps = gaps_between(run.lag.known_at, found.measured_from_at, until_at)
    yield gaps_text("total lag", gaps, found.load.origin_at or found.measured_from_at)
    yield _rebalances(found)
    yield from _members(run, until_at)


def _cuts(run: RunEvidence, found: Measures) -> str:
    cuts = first_cuts(run.lag)
    if not cuts:
        return ""
    plural = "s" * (len(cuts) != 1)
    return (
        f"the end offset of {len(cuts)} partition{plural} fell, first "
        f"{found.moment(min(cuts.values()))}: the topic was recreated, or records were cut off. "
        "Load and work then count from the new offsets"
    )


def _rebalances(found: Measures) -> str:
    episodes = found.rebalances.episodes
    if not episodes:
        return "the group did not rebalance"
    causes = Counter(episode.trigger.replace("_", " ") for episode in episodes)
    counted = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
    named = "; ".join(
        f"{found.moment(episode.started_at)} {episode.trigger_text}"
        for episode in episodes[:NAMED_EPISODES]
    )
    more = f"; {len(episodes) - NAMED_EPISODES} more" if len(episodes) > NAMED_EPISODES else ""
    return f"{len(episodes)} rebalances ({counted}): {named}{more}"


def _members(run: RunEvidence, until_at: int) -> Iterator[str]:
    """Return where members and pods of the Deployment do not match."""
    if run.observation is None or run.observation.deployment is None:
        return
    most = max((r.members for r in run.records if isinstance(r, GroupSample)), default=0)
    known = member_pods(run.records)
    if known < most:
        yield (
            f"at most {known} of {most} members were known by the name or address of their pod: "
            "put the pod's name into client.id to see which pod holds a partition"
        )
    yield from contradictions_of_members(
        run.records, until_at, session_seconds=CLIENTS_SESSION_SECONDS
    )
