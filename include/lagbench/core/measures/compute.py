"""Compute all measures of a run from its evidence alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lagbench.core.measures.accounting.accounting import (
    Accounting,
    accounting_measure,
    moved_text,
    never_done,
)
from lagbench.core.measures.checks import (
    cut_off_scale_down,
    moved_back,
    observation_notes,
    rebalance_count,
)
from lagbench.core.measures.doubts.doubt_rules import doubts_of, validity_of
from lagbench.core.measures.doubts.doubts_of_load import stale_readings
from lagbench.core.measures.doubts.doubts_of_policy import Window, undone_edits
from lagbench.core.measures.drain import Drain, drain_measure
from lagbench.core.measures.evidence.group_strangers import (
    group_gaps,
    group_strangers,
    left_behind_text,
)
from lagbench.core.measures.evidence.observed_group import BUSY_SECONDS
from lagbench.core.measures.evidence.pod_timeline import lost_rebalances, unrecorded_members
from lagbench.core.measures.evidence.producer_report import held_back
from lagbench.core.measures.lag_over_time import Lag, Seconds, build_up, idle_wait, lag_measure
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.pod_use import PaidForItself, paid_for_itself, start_cost
from lagbench.core.measures.reaction import Reaction, worst_reaction
from lagbench.core.measures.reaction_stamps import ReactionInput
from lagbench.core.measures.rebalance_episodes import RebalanceEpisode, idle_scale_downs_text
from lagbench.core.measures.run_end import EndState, end_state, observer_cost
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.measures.scaling import (
    Group,
    rebalance_measures,
    replica_group,
    scaling_measure,
    unwatched_pods,
)
from lagbench.core.measures.spark_measures import published_findings, repeats_text, spark_measures
from lagbench.core.measures.standstill import held_records
from lagbench.core.scenario.consumer_kinds import kind_of
from lagbench.core.scenario.event_stream import failing_seqs
from lagbench.errors import NotReady


def compute_measures(run_id: str, run: RunEvidence) -> Measures:
    """Return the measures of ``run``.

    :raises NotReady: there is no telemetry at all.
    """
    from_at, until_at = run.from_at, run.until_at
    if from_at is None or until_at is None:
        raise NotReady(f"run {run_id} has no telemetry: nothing can be measured")
    group = replica_group(run, from_at, until_at)
    rebalances, stood_still = rebalance_measures(run, group, from_at, until_at)
    window = Window(from_at, until_at, group.changes, run.load.origin_at)
    drain = _drain(run, until_at)
    accounting = _accounting(run)
    found = Measures(
        run_id=run_id,
        scenario=run.scenario.name,
        policy=str(run.manifest.get("policy") or run.scenario.policy),
        seed=int(run.manifest.get("seed", run.scenario.seed)),
        fidelity=run.manifest["fidelity"],
        balancer=run.balancer,
        consumer_kind=run.scenario.consumer.kind,
        work=run.scenario.consumer.work
        if run.observation is None and run.scenario.consumer.kind != "own"
        else None,
        accounting_level=run.accounting_level,
        observation=run.observation,
        measured_from_at=from_at,
        measured_until_at=until_at,
        run_seconds=(until_at - from_at) / NANOSECONDS,
        load=run.load,
        reaction=_reaction(run, group, until_at),
        lag=_lag(run, group, accounting, from_at, until_at),
        drain=drain,
        rebalances=rebalances,
        scaling=scaling_measure(run, group, from_at, until_at),
        paid_for_itself=_paid(run, group, rebalances.episodes, drain, until_at),
        accounting=accounting,
        observer_cost=observer_cost(run.records, from_at, until_at),
        start_cost=start_cost(run.records, run.timelines),
        end_state=_end_state(run, until_at),
        standstill=stood_still,
        validity=validity_of(run, window),
        doubts=doubts_of(run, window),
        actions=run.actions,
        spark=spark_measures(run.records, from_at, until_at),
        **_of_rehearsal(run, from_at, until_at),
    )
    notes = observation_notes(run, found) if run.observation else _notes(found, run, window)
    known = tuple(filter(None, (*found.validity.notes, *notes)))
    validity_with_notes = found.validity.model_copy(update={"notes": known})
    return found.model_copy(update={"validity": validity_with_notes})


def _of_rehearsal(run: RunEvidence, from_at: int, until_at: int) -> dict[str, Any]:
    """Return who else was in the group, and what is unknown of its work.

    Each member of an observed group is its own, and nothing but commits was ever due.
    """
    if run.observation is not None:
        return {}
    unknown = (unrecorded_members(run.records, run.accounting), lost_rebalances(run.records))
    return {
        "group_strangers": group_strangers(
            run.records,
            run.hidden,
            members_per_pod=run.scenario.consumer.members_per_pod,
            session_seconds=run.scenario.longest_session_seconds,
        ),
        "group_gaps": group_gaps(
            run.records, from_at=from_at, until_at=until_at, hidden=run.hidden
        ),
        "work_unknown": "; ".join(filter(None, unknown)),
    }


def _notes(found: Measures, run: RunEvidence, window: Window) -> Iterator[str]:
    """Return notes that do not affect the verdict but that a reader should know.

    These are: rebalances that no scaling explains, members that pods left behind, and a scale-down
    that was cut off or met an idle group.
    """
    yield from run.manifest.get("own_consumer_notes", ())
    if kind_of(run.scenario.consumer.kind).reports_owners:
        yield from rebalance_count(found).reasons
    yield cut_off_scale_down(found, str((run.manifest.get("tail") or {}).get("ended_by")))
    yield left_behind_text(run.records)
    yield moved_back(found)
    yield moved_text(found.accounting)
    yield repeats_text(found.accounting.repeats_by_batch)
    yield from undone_edits(run, window)
    yield from stale_readings(run, window)
    yield idle_scale_downs_text(found.scaling.changes, run.rate)
    yield from published_findings(run.records)


def _reaction(run: RunEvidence, group: Group, until_at: int) -> Reaction:
    given = ReactionInput(
        records=run.records,
        lag=run.lag,
        timelines=run.timelines,
        changes=group.changes,
        load=run.load,
        limits=run.policies.at(run.load.first_spike_started_at),
        replicas_at_step=None,
        until_at=until_at,
        clocks=run.clocks,
        has_tasks=not kind_of(run.scenario.consumer.kind).has_members,
        members_are_pods=run.members_are_pods,
    )
    return worst_reaction(
        given, partitions=run.topic_partitions, pod_rate_per_second=run.pod_rate_per_second
    )


def _percentiles(run: RunEvidence, name: str) -> Seconds:
    found = (run.accounting or {}).get(name) or {}
    return Seconds(**{part: found.get(part) for part in ("p50", "p95", "p99", "max")})


def _accounting(run: RunEvidence) -> Accounting:
    return accounting_measure(
        run.accounting,
        run.bad_messages,
        fence=run.fence,
        unknown_telemetry=run.unknown_records,
        commit_moves=run.commit_moves,
        poisoned_seqs=failing_seqs(run.scenario),
    )


def _lag(
    run: RunEvidence, group: Group, accounting: Accounting, from_at: int, until_at: int
) -> Lag:
    found = lag_measure(
        run.lag,
        from_at=from_at,
        until_at=until_at,
        spike_ended_at=run.load.last_spike_ended_at,
        time_lag_seconds=_percentiles(run, "time_lag_seconds"),
    )
    after = _percentiles(run, "time_lag_seconds_after")
    known = None if after.p50 is None else after
    grown = build_up(run.lag, run.load.spike_windows, group.changes, until_at=until_at)
    waited = idle_wait(
        run.offered, run.rate, stream_started_at=run.load.stream_started_at, until_at=until_at
    )
    return found.model_copy(
        update={
            "time_lag_seconds_after": known,
            "build_up": grown,
            "after_idle": waited,
            "clock_error_seconds": run.time_lag_error_seconds,
            "never_done": never_done(accounting, run.bad_messages, run.offered.total),
        }
    )


def _drain(run: RunEvidence, until_at: int) -> Drain:
    limits = run.policies.at(run.load.last_spike_ended_at)
    threshold, rule = limits.lag_threshold_records, limits.threshold_rule
    if run.observation is not None and threshold is None and run.pod_rate_per_second is not None:
        threshold = run.pod_rate_per_second * BUSY_SECONDS * limits.started_replicas
        rule = f"no lag threshold is known: {BUSY_SECONDS:g} s of work for the pods at the start"
    return drain_measure(
        run.lag,
        run.replica_samples,
        run.rate,
        spike_ended_at=run.load.last_spike_ended_at,
        until_at=until_at,
        threshold=(threshold, rule),
        pod_rate=run.pod_rate_per_second,
        held=held_back(run.records, run.offered, run.load.stream_started_at),
        hidden=run.hidden,
        clock_error_seconds=run.producers_error_seconds,
    )


def _paid(
    run: RunEvidence,
    group: Group,
    episodes: tuple[RebalanceEpisode, ...],
    drain: Drain,
    until_at: int,
) -> PaidForItself:
    if run.observation is not None and not run.replica_samples:
        return PaidForItself(reason="the replicas were not observed")
    has_all_pods = run.timelines and not unwatched_pods(run, run.from_at or 0, until_at)
    return paid_for_itself(
        run.rate,
        group.changes,
        episodes,
        run.timelines.values() if has_all_pods else None,
        spike_started_at=run.load.first_spike_started_at,
        ended_at=until_at if drain.drained_at is None else drain.drained_at,
        held_since=lambda at: held_records(run.rate, run.work, at, until_at),
    )


def _end_state(run: RunEvidence, until_at: int) -> EndState:
    ends, committed = (
        None
        if (found := (run.fence or {}).get(name)) is None
        else {int(partition): at for partition, at in found.items()}
        for name in ("events", "committed")
    )
    return end_state(
        run.records,
        ends=ends,
        committed=committed,
        floor=run.policies.last.floor_replicas if run.has_policy else None,
        until_at=until_at,
        has_members=kind_of(run.scenario.consumer.kind).has_members,
    )
