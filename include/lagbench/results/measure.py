"""Measure and judge a run from its folder alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.adapters.run_folder import RunFolder
from lagbench.core.accounting import accounting_measure
from lagbench.core.checks import rebalance_count, scale_down
from lagbench.core.drain import DrainThreshold, drain_measure, pod_rate_per_second
from lagbench.core.end_state import end_state
from lagbench.core.lag import lag_measure
from lagbench.core.load import generator, telemetry_gaps, validity
from lagbench.core.measures import (
    NANOSECONDS,
    Drain,
    EndState,
    Lag,
    Measures,
    PaidForItself,
    RebalanceEpisode,
    Seconds,
    Validity,
)
from lagbench.core.observer_cost import observer_cost
from lagbench.core.paid_for_itself import paid_for_itself
from lagbench.core.partition_gaps import partition_gaps
from lagbench.core.reaction import reaction
from lagbench.core.reaction_stamps import ReactionInput
from lagbench.core.rebalance import rebalance_protocol
from lagbench.core.rebalance_measure import rebalance_episodes, rebalances
from lagbench.core.start_cost import start_cost
from lagbench.core.verdict import Verdict, judge
from lagbench.errors import NotReady
from lagbench.results.run_evidence import RunEvidence, read_evidence, read_scenario
from lagbench.results.scaling import Group, replica_group, scaling_measure


def measure_run(folder: RunFolder) -> Measures:
    """Compute the measures of a run and write measures.json; doing it again changes nothing.

    :raises NotReady: the run has not come far enough to be measured.
    """
    measures = compute_measures(folder.run_id, read_evidence(folder))
    folder.write_json(folder.measures, measures.model_dump(mode="json"))
    return measures


def judge_run(folder: RunFolder) -> Verdict:
    """Judge measures.json (made first if it is missing) by the scenario's SLOs.

    Writes verdict.json.
    """
    if folder.measures.exists():
        measures = Measures.model_validate(folder.read_json(folder.measures))
    else:
        measures = measure_run(folder)
    verdict = judge(measures, read_scenario(folder).slos)
    folder.write_json(folder.verdict, verdict.model_dump(mode="json"))
    return verdict


def compute_measures(run_id: str, run: RunEvidence) -> Measures:
    """Return the measures of ``run``.

    :raises NotReady: there is no telemetry at all.
    """
    from_at, until_at = run.from_at, run.until_at
    if from_at is None or until_at is None:
        raise NotReady(f"run {run_id} has no telemetry: nothing can be measured")
    group = replica_group(run, from_at, until_at)
    protocol = rebalance_protocol(run.scenario.consumer.balancer)
    episodes = rebalance_episodes(group.spans, run.rate, group.changes, protocol)
    handovers = [handover for handover in run.handovers if handover.next_done_at <= until_at]
    drain = _drain(run, until_at)
    return _with_checks(
        Measures(
            run_id=run_id,
            scenario=run.scenario.name,
            policy=str(run.manifest.get("policy") or run.scenario.policy),
            seed=int(run.manifest.get("seed", run.scenario.seed)),
            fidelity=run.manifest["fidelity"],
            balancer=run.scenario.consumer.balancer,
            measured_from_at=from_at,
            measured_until_at=until_at,
            run_seconds=(until_at - from_at) / NANOSECONDS,
            load=run.load,
            validity=_validity(run, from_at, until_at),
            reaction=reaction(
                ReactionInput(
                    records=run.records,
                    lag=run.lag,
                    lives=run.lives,
                    changes=group.changes,
                    load=run.load,
                    limits=run.limits,
                    replicas_at_step=run.replicas_at(run.load.first_spike_started_at),
                    until_at=until_at,
                    clocks=run.clocks,
                )
            ),
            lag=_lag(run, from_at, until_at),
            drain=drain,
            rebalances=rebalances(episodes, partition_gaps(handovers)),
            scaling=scaling_measure(run, group, from_at, until_at),
            paid_for_itself=_paid(run, group, episodes, drain, until_at),
            accounting=accounting_measure(run.accounting, run.bad_messages),
            observer_cost=observer_cost(run.records, from_at, until_at),
            start_cost=start_cost(run.records, run.lives),
            end_state=_end_state(run, until_at),
        )
    )


def _with_checks(found: Measures) -> Measures:
    """Note the rebalances that no scaling explains, and a scale-down that was cut off."""
    reasons = (*rebalance_count(found).reasons, *scale_down(found).reasons)
    notes = (*found.validity.notes, *reasons)
    return found.model_copy(update={"validity": found.validity.model_copy(update={"notes": notes})})


def _validity(run: RunEvidence, from_at: int, until_at: int) -> Validity:
    gaps = telemetry_gaps(run.records, from_at=from_at, until_at=until_at)
    found = validity(generator(run.records), gaps)
    if not run.unknown_records:
        return found
    note = f"{run.unknown_records} telemetry rows are no known record and were left out"
    return found.model_copy(update={"notes": (*found.notes, note)})


def _lag(run: RunEvidence, from_at: int, until_at: int) -> Lag:
    percentiles = (run.accounting or {}).get("time_lag_seconds") or {}
    return lag_measure(
        run.lag,
        from_at=from_at,
        until_at=until_at,
        spike_ended_at=run.load.last_spike_ended_at,
        time_lag_seconds=Seconds(
            **{name: percentiles.get(name) for name in ("p50", "p95", "p99", "max")}
        ),
    )


def _drain(run: RunEvidence, until_at: int) -> Drain:
    settings = run.scenario.consumer
    return drain_measure(
        run.lag,
        run.replica_samples,
        run.rate,
        spike_ended_at=run.load.last_spike_ended_at,
        until_at=until_at,
        threshold=DrainThreshold(run.limits.lag_threshold_records, run.limits.threshold_rule),
        pod_rate=pod_rate_per_second(settings.process_ms, settings.concurrency),
    )


def _paid(
    run: RunEvidence,
    group: Group,
    episodes: tuple[RebalanceEpisode, ...],
    drain: Drain,
    until_at: int,
) -> PaidForItself:
    return paid_for_itself(
        run.rate,
        group.changes,
        episodes,
        run.lives.values(),
        spike_started_at=run.load.first_spike_started_at,
        ended_at=until_at if drain.drained_at is None else drain.drained_at,
    )


def _end_state(run: RunEvidence, until_at: int) -> EndState:
    fence = run.fence or {}
    return end_state(
        run.records,
        ends=_by_partition(fence.get("events")),
        committed=_by_partition(fence.get("committed")),
        floor=run.limits.floor_replicas,
        until_at=until_at,
    )


def _by_partition(offsets: Mapping[str, Any] | None) -> dict[int, Any] | None:
    return None if offsets is None else {int(partition): at for partition, at in offsets.items()}
