"""The one list of doubts: each rule with its code, what it leaves undetermined, and its finder.

To add a doubt, write a finder that yields sentences with instant and values, and add its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lagbench.core.measures.doubts.doubt import EVERYTHING, Doubt, Part
from lagbench.core.measures.doubts.group_views import other_owners, two_owners
from lagbench.core.measures.doubts.ledger import holes, incomplete_fence, pods_above_their_rows
from lagbench.core.measures.doubts.pod_clocks import clocks_off
from lagbench.core.measures.doubts.policy_in_force import not_in_force
from lagbench.core.measures.doubts.readings import fallen_offsets, stale_replicas, stamps_apart
from lagbench.core.measures.doubts.scaling_authors import foreign_steps
from lagbench.core.measures.doubts.window import Window
from lagbench.core.measures.evidence import (
    contradictions_of_an_empty_group,
    contradictions_of_commits,
    contradictions_of_lag,
    contradictions_of_members,
    contradictions_of_plan,
    contradictions_of_policy,
    contradictions_of_scalings,
    contradictions_of_the_end,
    contradictions_of_time_lag,
)
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.scenario import kind_of
from lagbench.core.telemetry import Phase

Find = Callable[[RunEvidence, Window], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """``find`` yields the sentences of the doubt; none: there is nothing to doubt."""

    code: str
    about: tuple[Part, ...]
    find: Find
    is_of_observations: bool = False
    """True: it also holds for a group that the bench neither loaded nor scaled."""


def doubts_of(run: RunEvidence, window: Window) -> tuple[Doubt, ...]:
    """Return all doubts about the run, in the order of the rules."""
    return tuple(
        Doubt(code=rule.code, about=rule.about, text=text)
        for rule in RULES
        if run.observation is None or rule.is_of_observations
        for text in rule.find(run, window)
    )


def _end(run: RunEvidence, window: Window) -> Iterable[str]:
    return contradictions_of_the_end(run.records, run.fence, window.until_at)


def _lag_table(run: RunEvidence, _window: Window) -> Iterable[str]:
    return contradictions_of_lag(run.records, run.lag, first_partitions=run.partitions)


def _no_lag(run: RunEvidence, _window: Window) -> Iterable[str]:
    if run.observation is not None and not run.lag.known_at:
        yield "the lag of the group was never known: a partition has no commit, or no reading"


def _commits_ahead(run: RunEvidence, _window: Window) -> Iterable[str]:
    has_reports = kind_of(run.scenario.consumer.kind).has_reports
    return contradictions_of_commits(
        run.lag,
        run.rate,
        int((run.accounting or {}).get("lost") or 0),
        commits_first=run.scenario.consumer.commit == "auto" or not has_reports,
    )


def _members(run: RunEvidence, window: Window) -> Iterable[str]:
    consumer = run.scenario.consumer
    if not kind_of(consumer.kind).has_members:
        return ()
    return contradictions_of_members(
        run.records,
        window.until_at,
        session_seconds=run.scenario.longest_session_seconds,
        members_per_pod=consumer.members_per_pod,
        hidden=run.hidden,
    )


def _empty_group(run: RunEvidence, window: Window) -> Iterable[str]:
    if not kind_of(run.scenario.consumer.kind).has_members:
        return ()
    return contradictions_of_an_empty_group(run.records, run.rate, window.until_at, run.hidden)


def _unseen_scalings(run: RunEvidence, window: Window) -> Iterable[str]:
    return contradictions_of_scalings(run.records, window.until_at)


def _above_the_ceiling(run: RunEvidence, window: Window) -> Iterable[str]:
    if not run.has_policy:
        return ()
    return contradictions_of_policy(
        run.records, run.policies, from_at=window.from_at, until_at=window.until_at
    )


def _other_settings(run: RunEvidence, _window: Window) -> Iterable[str]:
    return contradictions_of_plan(run.records, run.scenario, run.actions)


def _time_lag(run: RunEvidence, _window: Window) -> Iterable[str]:
    return contradictions_of_time_lag(run.accounting, run.latest_seconds)


def _settled_by_the_clock(run: RunEvidence, _window: Window) -> Iterable[str]:
    """Yield where the tail ended as settled, though the wait for it had run into its limit."""
    ended_by = (run.manifest.get("tail") or {}).get("ended_by")
    for record in run.records:
        if isinstance(record, Phase) and record.name == "replicas_settled":
            is_reached = record.state != "finished" or record.detail in ("", "reached")
            if ended_by == "settled" and not is_reached:
                yield f"the tail ended as settled, the wait for it as {record.detail}"


RULES = (
    Rule("end", ("policy", "lag", "replicas", "group", "work"), _end),
    Rule("lag_table", ("lag",), _lag_table, is_of_observations=True),
    Rule("no_lag", ("lag",), _no_lag, is_of_observations=True),
    Rule("commits_ahead", ("lag", "work"), _commits_ahead),
    Rule("members", ("replicas", "group"), _members),
    Rule("empty_group", ("group",), _empty_group),
    Rule("unseen_scaling", ("replicas",), _unseen_scalings),
    Rule("above_the_ceiling", ("policy",), _above_the_ceiling, is_of_observations=True),
    Rule("other_author", ("policy",), foreign_steps),
    Rule("other_policy", ("policy",), not_in_force),
    Rule("other_settings", EVERYTHING, _other_settings),
    Rule("other_ending", ("policy", "replicas"), _settled_by_the_clock),
    Rule("fallen_offsets", EVERYTHING, fallen_offsets),
    Rule("stale_replicas", ("replicas", "group"), stale_replicas),
    Rule("stamps_apart", ("replicas", "group"), stamps_apart),
    Rule("two_owners", ("policy", "group", "work", "messages", "owners"), two_owners),
    Rule("other_owners", ("policy", "group", "work", "messages", "owners"), other_owners),
    Rule("ledger_holes", ("work", "latency", "messages", "owners"), holes),
    Rule("pods_totals", ("work", "latency", "messages", "owners"), pods_above_their_rows),
    Rule("incomplete_fence", ("lag", "messages"), incomplete_fence),
    Rule("pod_clock", ("group", "work", "latency", "owners"), clocks_off),
    Rule("time_lag", ("latency",), _time_lag),
)
