"""Turn the records of an observed group into an ordinary run folder, to be measured and judged.

A rehearsal's tables come from Spark. An observation has no ledger and no events, so its few tables
are made here, from the recorder's records alone. All of it can be made again from the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.evidence.group_events import STOPPING_PHASE
from lagbench.core.measures.evidence.lag_readings import LagSeries, RateSeries, lag_series
from lagbench.core.measures.evidence.observed_group import (
    OBSERVED_FIELD,
    Observation,
    longest_gap_seconds,
    observation_of,
    observed_pod_rate,
    observed_rates,
    observed_shares,
)
from lagbench.core.measures.partition_work import work_by_commits
from lagbench.core.scenario.consumer_kinds import level_of
from lagbench.core.scenario.measured_load import UNKNOWN_MS, replay_text
from lagbench.core.scenario.profiles import MOST_PER_SECOND
from lagbench.core.scenario.slo_limits import with_limits
from lagbench.core.telemetry.records import TelemetryRecord, decode_record, encode_record
from lagbench.core.telemetry.records_of_programs import Phase
from lagbench.core.telemetry.records_of_recorder import GroupSample, LagSample, ReplicaSample
from lagbench.errors import NotReady, WrongInput
from lagbench.results.seals import seal_evidence

RECORDS_FILE = "records.jsonl"
POLICY_CHECK_FILE = "policy_check.json"
LOAD_FILE = "observed_load.csv"
"""The load that the log took, in the form of a trace: a rehearsal can play it."""
REPLAY_FILE = "replay.yaml"
"""A scenario that rehearses that load."""
LIMITS_FIELD, POD_RATE_FIELD = "slos", "pod_rate"
"""Of the manifest's ``conf``: what the user gave for the verdict."""

_TABLES = {
    "telemetry": {"at": "int64", "source": "string", "kind": "string", "record": "string"},
    "lag": {
        "at": "int64",
        "partition": "int32",
        "end_offset": "int64",
        "committed": "int64",
        "lag": "int64",
    },
    "replicas": {"at": "int64", "spec": "int32", "current": "int32", "ready": "int32"},
    "timeline": dict.fromkeys(("at", "offered", "processed", "processed_again"), "int64"),
    "partition_gaps": {"partition": "int32", "next_done_at": "int64", "gap_seconds": "float64"},
    "bad_messages": {
        "class": "string",
        "partition": "int32",
        **dict.fromkeys(("pod", "other_pod", "cause", "cause_pod"), "string"),
        "at": "int64",
        "seq": "int64",
    },
}
"""Columns and types of the tables that a rehearsal's Spark jobs write."""


def observed_limits(
    given: Mapping[str, Any], *, has_workload: bool, has_policy: bool
) -> dict[str, Any]:
    """Return the limits of the verdict: the user's, and none where nothing could be judged.

    :param has_workload: replicas are known. :param has_policy: so is the policy's floor.
    """
    limits = level_of("commits").default_limits()
    if not has_workload:
        limits |= {"flips": None, "pod_minutes": None}
    if not (has_workload and has_policy):
        limits["baseline_at_floor"] = False
    return with_limits(limits, given)


def observed_partitions(folder: RunFolder) -> int:
    """Return the partitions of the topic, as the completed run states them."""
    found = yaml.safe_load(folder.read_text(folder.scenario))
    return int(found["partitions"])


def read_records(path: Path) -> list[TelemetryRecord]:
    """Return the records that an observation wrote, by instant; half a last line is left out."""
    found: list[TelemetryRecord] = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(decode_record(line))
        except msgspec.DecodeError:
            continue  # the recorder was killed while it wrote its last line
    return sorted(found, key=lambda record: record.at)


def is_unfinished(folder: RunFolder) -> bool:
    """Return whether an observation was killed before its records became a run folder."""
    manifest = folder.read_json(folder.manifest)
    return OBSERVED_FIELD in manifest and not folder.read_text(folder.scenario).strip()


def complete_run(folder: RunFolder) -> Observation:
    """Write scenario, tables and what was observed into the folder; return the last.

    The user's limits and the rate of a pod are those of the manifest. A folder whose observation
    was killed ends with its last record.

    :raises NotReady: the offsets were not read twice.
    """
    manifest = folder.read_json(folder.manifest)
    conf = manifest.get("conf") or {}
    given_pod_rate: float | None = conf.get(POD_RATE_FIELD)
    records = _ended(read_records(folder.path / RECORDS_FILE))
    lag = _lag_series(records)
    work = None if lag is None else work_by_commits(lag)
    if lag is None or work is None:
        gaps = [str(getattr(r, "reason", "")) for r in records if getattr(r, "what", "") == "lag"]
        why = f"no reading of the offsets succeeded twice; {[*gaps, 'it ended too soon'][0]}"
        raise NotReady(f"run {folder.reference}: {why}")
    replicas = [record.spec for record in records if isinstance(record, ReplicaSample)]
    members = [record.members for record in records if isinstance(record, GroupSample)]
    per_second, source = given_pod_rate, "given by --pod-rate"
    if given_pod_rate is None:
        rate = observed_pod_rate(records, lag)
        per_second, source = rate.per_second, rate.source
    rates = observed_rates(lag, from_at=int(lag.at[0]), until_at=int(lag.at[-1]))
    seen = replace(
        Observation(**manifest[OBSERVED_FIELD]),
        pods_at_start=next(iter([*replicas[:1], *members[:1]]), None),
        pod_rate_per_second=per_second,
        pod_rate_source=source,
        lowest_rate_per_second=min(rate for _, rate in rates[:-1]),
        highest_rate_per_second=max(rate for _, rate in rates[:-1]),
        longest_gap_seconds=round(longest_gap_seconds(lag), 3),
    )
    slos = observed_limits(
        conf.get(LIMITS_FIELD) or {},
        has_workload=seen.deployment is not None,
        has_policy=seen.policy is not None,
    )
    _write_scenario(folder, seen, lag, slos, rates)
    _write_replay(folder, seen, observed_shares(lag), int(lag.partitions.size))
    started_at = int(lag.at[0])
    folder.update_manifest(**{OBSERVED_FIELD: seen.as_dict(), "stream_started_at": started_at})
    _write_tables(folder, records, work.rate)
    seal_evidence(folder)
    return seen


def _ended(records: list[TelemetryRecord]) -> list[TelemetryRecord]:
    """Return the records with an end: that of the observation, else the last record."""
    if not records or any(isinstance(r, Phase) and r.name == STOPPING_PHASE for r in records):
        return records
    last = records[-1]
    return [*records, Phase(at=last.at, source=last.source, name=STOPPING_PHASE, state="started")]


def _lag_series(records: Iterable[TelemetryRecord]) -> LagSeries | None:
    rows = [
        (record.at, *row)
        for record in records
        if isinstance(record, LagSample)
        for row in record.partitions
    ]
    if not rows:
        return None
    at, partition, end, committed = zip(*rows, strict=True)
    first = min(row[0] for row in rows)
    there = sum(row[0] == first for row in rows)
    return lag_series(at, partition, end, committed, first_partitions=there)


def _write_scenario(
    folder: RunFolder,
    seen: Observation,
    lag: LagSeries,
    slos: Mapping[str, Any],
    rates: Sequence[tuple[float, float]],
) -> None:
    scale = max(1.0, math.ceil(max(rate for _, rate in rates) / MOST_PER_SECOND))
    points = [{"second": second, "rate_per_second": rate / scale} for second, rate in rates]
    scenario = {
        "name": folder.read_json(folder.manifest)["scenario"],
        "description": f"The group {seen.group} on the topic {seen.topic}, observed",
        "partitions": int(lag.partitions.size),
        "profile": {"kind": "trace", "file": LOAD_FILE, "rate_scale": scale, "points": points},
        "consumer": {"process_ms": 0},
        "policy": folder.read_json(folder.manifest)["policy"],
        "allow_overscale": True,
        "slos": dict(slos),
        "tail": "none",
    }
    folder.write_text(folder.scenario, yaml.safe_dump(scenario, sort_keys=False))
    lines = [f"{second:g},{rate:.10g}" for second, rate in rates]
    folder.write_text(LOAD_FILE, "\n".join(["second,rate", *lines]) + "\n")


def _write_replay(
    folder: RunFolder, seen: Observation, shares: Sequence[float], count: int
) -> None:
    """Write a scenario with the load, pods of the observed rate, and the policy if there is one."""
    rate, text = seen.pod_rate_per_second, folder.read_text(folder.policy)
    policy = yaml.safe_load(text) if seen.policy is not None else None
    consumer: dict[str, Any] = {"process_ms": UNKNOWN_MS if rate is None else round(1000 / rate, 3)}
    kind = policy and policy["spec"]["scaleTargetRef"].get("kind")
    scenario = {
        "name": "replay",
        "description": f"The observed load of the group {seen.group} on the topic {seen.topic}",
        "partitions": count,
        "consumer": {**consumer, **({"workload": kind} if kind else {})},
        "policy": None if policy is None else folder.policy.name,
    }
    unknown = () if rate is not None else (f"process_ms is a guess: {seen.pod_rate_source}.",)
    text = replay_text(scenario, trace=LOAD_FILE, shares=shares, remarks=unknown)
    folder.write_text(REPLAY_FILE, text)


def scenario_of_observation(folder: RunFolder) -> Path:
    """Return the scenario file that replays an observation, for ``checked_cell``.

    :raises WrongInput: the run made its own load. :raises NotReady: the observation has not ended.
    """
    if observation_of(folder.read_json(folder.manifest)) is None:
        allowed = "an observation: this run made its own load"
        raise WrongInput(where="run", field="run", value=folder.reference, allowed=allowed)
    if not (path := folder.path / REPLAY_FILE).is_file():
        told = f"run {folder.reference} has no {REPLAY_FILE}"
        raise NotReady(f"{told}: once it has ended, lagbench report {folder.reference} writes it")
    return path


def _write_tables(folder: RunFolder, records: Sequence[TelemetryRecord], rate: RateSeries) -> None:
    samples = [r for r in records if isinstance(r, LagSample)]
    rows: dict[str, list[tuple[Any, ...]]] = {
        "telemetry": [
            (r.at, r.source, r.__struct_config__.tag, encode_record(r).decode()) for r in records
        ],
        "lag": [
            (sample.at, partition, end, at, None if at is None else max(0, end - at))
            for sample in samples
            for partition, end, at in sample.partitions
        ],
        "replicas": [
            (r.at, r.spec, r.current, r.ready) for r in records if isinstance(r, ReplicaSample)
        ],
        "timeline": [
            (rate.at_bin(index), offered, processed, 0)
            for index, (offered, processed) in enumerate(
                zip(rate.offered.tolist(), rate.processed.tolist(), strict=True)
            )
        ],
    }
    for name, columns in _TABLES.items():
        schema = pa.schema([(column, getattr(pa, kind)()) for column, kind in columns.items()])
        content = [dict(zip(columns, row, strict=True)) for row in rows.get(name, ())]
        path = folder.table(name)
        path.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(content, schema=schema), path / "part-0.parquet")
