"""Read a run folder into the evidence for all measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.run_manifest import CURRENT_FORMAT, FORMAT_FIELD
from lagbench.core.clocks import clock_set, on_recorders_clock
from lagbench.core.hpa.controller_flags import followed_version, version_of
from lagbench.core.measures.accounting.accounting import CommitMove, commits_moved_back
from lagbench.core.measures.evidence.group_strangers import with_pods_of_members
from lagbench.core.measures.evidence.lag_readings import LagSeries, RateSeries, without_stale
from lagbench.core.measures.evidence.observed_group import (
    Observation,
    observation_of,
    observed_members,
)
from lagbench.core.measures.evidence.pod_timeline import PodLives, by_life, pod_lives
from lagbench.core.measures.partition_work import (
    PartitionWork,
    rate_of_commits,
    rates_by_life,
    work_by_commits,
    work_by_lag,
)
from lagbench.core.measures.run_evidence import RunEvidence, first_partitions
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.actions import SwapPolicy
from lagbench.core.scenario.consumer_kinds import knows_work
from lagbench.core.scenario.event_stream import planned_partitions
from lagbench.core.scenario.scenario import PartitionPlan, Scenario
from lagbench.errors import NotReady
from lagbench.results import run_tables
from lagbench.results.cell_run import read_scenario, read_yaml


def read_evidence(folder: RunFolder) -> RunEvidence:
    """Read a run folder.

    :raises NotReady: a file or table that every run must have is missing.
    :raises WrongInput: the scenario or the policy of the folder is not one.
    """
    stamped, unknown = run_tables.read_telemetry(folder)
    manifest, scenario = folder.read_json(folder.manifest), read_scenario(folder)
    if manifest.get(FORMAT_FIELD) != CURRENT_FORMAT:
        raise NotReady(
            f"run {folder.reference} was made by an earlier version of lagbench: its folder has "
            f"another format than {CURRENT_FORMAT}, and cannot be measured"
        )
    clocks = clock_set(stamped, manifest["fidelity"])
    named = on_recorders_clock(stamped, clocks)
    observed = observation_of(manifest)
    if observed is not None:
        named = sorted([*named, *observed_members(named)], key=lambda record: record.at)
    records = by_life(named)
    level = scenario.consumer.accounting
    if level is not None:
        records = with_pods_of_members(records, scenario.consumer)
    policy = read_policy(folder, observed)
    read = run_tables.read_lag(folder, first_partitions=first_partitions(records, scenario))
    lag, stale = without_stale(read, records)
    accounting = folder.read_json(folder.accounting) if folder.accounting.exists() else None
    if observed is not None:
        by_commits = work_by_commits(lag)
        if by_commits is None:
            raise NotReady("the offsets of the group were not read twice: nothing can be measured")
        rate, work = by_commits.rate, by_commits.work
    else:
        rate = run_tables.read_rate(folder, until_at=max((r.at for r in records), default=None))
        if not knows_work(level):
            rate = rate_of_commits(rate, lag)
        lives = pod_lives(named)
        work = _work(folder, scenario, rate, lag, accounting=accounting or {}, lives=lives)
    earliest_median = run_tables.read_earliest_median(folder)
    return RunEvidence(
        manifest=manifest,
        scenario=scenario,
        policy=policy,
        fence=folder.read_json(folder.fence) if folder.fence.exists() else None,
        accounting=accounting,
        records=records,
        unknown_records=unknown,
        lag=lag,
        rate=rate,
        handovers=run_tables.read_handovers(folder),
        bad_messages=run_tables.read_bad_messages(folder),
        work=work,
        earliest_median_seconds=earliest_median,
        commit_moves=_commit_moves(folder),
        stored_scalers=folder.read_json(folder.autoscaler) if folder.autoscaler.exists() else {},
        swapped=_swapped(folder, scenario),
        misplaced=misplaced_messages(folder, scenario.partition_plan),
        stale_lag=stale,
        ledger=run_tables.read_ledger(folder) if level is None and observed is None else None,
        clock_skews=run_tables.read_clock_skews(folder),
    )


def read_policy(folder: RunFolder, observed: Observation | None = None) -> Policy:
    """Return the run's policy; of an observed group without one, what it had.

    :raises LagbenchError: the file is missing, or holds no policy.
    """
    where = f"run {folder.reference}: policy.yaml"
    if observed is not None and observed.policy is None:
        return Policy.unknown(where, observed.pods_at_start)
    found = read_yaml(folder, folder.policy)
    return policy_of_run(found, _manifest(folder), where=where)


def policy_of_run(policy: Mapping[str, Any], manifest: Mapping[str, Any], *, where: str) -> Policy:
    """Return a policy by the version of Kubernetes that scaled by it in a run.

    That is the cluster's. The embedded bench follows the version that the policy names, else its
    own, that of its API server: 1.34 in older runs.

    :param manifest: of the run.
    """
    version = (manifest.get("cluster") or {}).get("kubernetes")
    followed = None if version is None else followed_version(version)
    if followed is not None and manifest.get("fidelity") != "kubernetes":
        followed = version_of(policy, followed)
    return Policy.read(policy, where=where, kubernetes=followed)


def _manifest(folder: RunFolder) -> Mapping[str, Any]:
    return folder.read_json(folder.manifest) if folder.manifest.exists() else {}


def _work(
    folder: RunFolder,
    scenario: Scenario,
    rate: RateSeries,
    lag: LagSeries,
    *,
    accounting: Mapping[str, Any],
    lives: PodLives,
) -> PartitionWork:
    """Return the work by partition; without its table the totals are spread by the lag."""
    work = None
    if knows_work(scenario.consumer.accounting):
        cost = accounting.get("message_seconds")
        work = run_tables.read_partition_work(
            folder, rate, scenario.partitions, message_seconds=cost
        )
    if work is None:
        return work_by_lag(rate, lag, int(accounting.get("lost") or 0))
    if work.pod_rates is None or not lives.began_at:
        return work
    return replace(work, pod_rates=rates_by_life(work.pod_rates, lives, rate.started_at))


def _swapped(folder: RunFolder, scenario: Scenario) -> dict[int, Policy]:
    """Return the policies that actions put in place, by the action's number."""
    found = {}
    for number, action in enumerate(scenario.actions):
        if isinstance(action, SwapPolicy):
            file = folder.swapped_policy(number)
            content, where = read_yaml(folder, file), f"run {folder.reference}: {file.name}"
            found[number] = policy_of_run(content, _manifest(folder), where=where)
    return found


def _commit_moves(folder: RunFolder) -> tuple[CommitMove, ...]:
    fenced = None
    if folder.fence.exists():
        fence = folder.read_json(folder.fence)
        offsets = {int(p): int(at) for p, at in fence["committed"].items() if at is not None}
        if fence.get("fenced_at"):
            fenced = (int(fence["fenced_at"]), offsets)
    return commits_moved_back(run_tables.read_commits(folder), fenced)


_BATCH_ROWS = 1 << 20

_COLUMNS = ["partition", "entity_id", "planned_offset_ns"]


def misplaced_messages(folder: RunFolder, plan: PartitionPlan) -> int:
    """Return how many messages in the log are in another partition than planned.

    Only a topic that grew has a choice; without a growth the rows are not read.

    :raises NotReady: the table ``events`` cannot be read.
    """
    if not plan.growths:
        return 0
    count = 0
    try:
        for part in sorted(folder.table("events").glob("*.parquet")):
            for batch in pq.ParquetFile(part).iter_batches(_BATCH_ROWS, columns=_COLUMNS):
                rows = pa.Table.from_batches([batch]).drop_null()
                entities = rows["entity_id"].to_numpy().astype(np.uint64)
                planned = planned_partitions(entities, rows["planned_offset_ns"].to_numpy(), plan)
                count += int((planned != rows["partition"].to_numpy()).sum())
    except (OSError, pa.ArrowException) as broken:
        raise NotReady(f"run {folder.run_id}: its messages cannot be read: {broken}") from broken
    return count
