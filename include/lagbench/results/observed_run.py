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
from lagbench.core.measures.evidence import (
    OBSERVED_FIELD,
    STOPPING_PHASE,
    LagSeries,
    Observation,
    RateSeries,
    lag_series,
    observed_pod_rate,
    observed_rates,
)
from lagbench.core.measures.rebalance import work_by_commits
from lagbench.core.scenario import MOST_PER_SECOND, level_of
from lagbench.core.telemetry import (
    GroupSample,
    LagSample,
    Phase,
    ReplicaSample,
    TelemetryRecord,
    decode_record,
    encode_record,
)
from lagbench.errors import NotReady

RECORDS_FILE = "records.jsonl"
POLICY_CHECK_FILE = "policy_check.json"
LOAD_FILE = "observed_load.csv"
"""The load that the log took, in the form of a trace: a rehearsal can play it."""
LIMITS_FIELD, POD_RATE_FIELD = "slos", "pod_rate"
"""Of the manifest's ``conf``: what the user gave for the verdict."""

_TEXT, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
_TELEMETRY = pa.schema([("at", _LONG), ("source", _TEXT), ("kind", _TEXT), ("record", _TEXT)])
_LAG = pa.schema(
    [
        ("at", _LONG),
        ("partition", _INT),
        ("end_offset", _LONG),
        ("committed", _LONG),
        ("lag", _LONG),
    ]
)
_REPLICAS = pa.schema([("at", _LONG), ("spec", _INT), ("current", _INT), ("ready", _INT)])
_TIMELINE = pa.schema(
    [("at", _LONG), ("offered", _LONG), ("processed", _LONG), ("processed_again", _LONG)]
)
_PARTITION_GAPS = pa.schema(
    [("partition", _INT), ("next_done_at", _LONG), ("gap_seconds", pa.float64())]
)
_BAD_MESSAGES = pa.schema(
    [
        ("class", _TEXT),
        ("partition", _INT),
        ("pod", _TEXT),
        ("other_pod", _TEXT),
        ("cause", _TEXT),
        ("cause_pod", _TEXT),
        ("at", _LONG),
        ("seq", _LONG),
    ]
)


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
    return {**limits, **given}


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
        why = "no reading of the offsets succeeded twice"
        raise NotReady(f"run {folder.reference}: {why}; {_first_gap(records)}")
    seen = _completed(Observation(**manifest[OBSERVED_FIELD]), records)
    if given_pod_rate is not None:
        seen = replace(
            seen, pod_rate_per_second=given_pod_rate, pod_rate_source="given by --pod-rate"
        )
    else:
        rate = observed_pod_rate(records, lag)
        seen = replace(seen, pod_rate_per_second=rate.per_second, pod_rate_source=rate.source)
    slos = observed_limits(
        conf.get(LIMITS_FIELD) or {},
        has_workload=seen.deployment is not None,
        has_policy=seen.policy is not None,
    )
    _write_scenario(folder, seen, lag, slos)
    started_at = int(lag.at[0])
    folder.update_manifest(**{OBSERVED_FIELD: seen.as_dict(), "stream_started_at": started_at})
    _write_tables(folder, records)
    _write(folder, "timeline", _timeline(work.rate))
    return seen


def _ended(records: list[TelemetryRecord]) -> list[TelemetryRecord]:
    """Return the records with an end: that of the observation, else the last record."""
    if not records or any(isinstance(r, Phase) and r.name == STOPPING_PHASE for r in records):
        return records
    last = records[-1]
    return [*records, Phase(at=last.at, source=last.source, name=STOPPING_PHASE, state="started")]


def _timeline(rate: RateSeries) -> pa.Table:
    bins = rate.processed.size
    columns = {
        "at": [rate.at_bin(index) for index in range(bins)],
        "offered": rate.offered,
        "processed": rate.processed,
        "processed_again": [0] * bins,
    }
    return pa.table(columns, schema=_TIMELINE)


def _completed(seen: Observation, records: Sequence[TelemetryRecord]) -> Observation:
    """Return the observation with the replicas, else the members, of the first reading."""
    replicas = (record.spec for record in records if isinstance(record, ReplicaSample))
    members = (record.members for record in records if isinstance(record, GroupSample))
    first = next(replicas, None)
    return replace(seen, pods_at_start=next(members, None) if first is None else first)


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


def _first_gap(records: Sequence[TelemetryRecord]) -> str:
    gaps = [r for r in records if getattr(r, "what", "") == "lag"]
    return str(getattr(gaps[0], "reason", "")) if gaps else "it ended too soon"


def _write_scenario(
    folder: RunFolder,
    seen: Observation,
    lag: LagSeries,
    slos: Mapping[str, Any],
) -> None:
    rates = observed_rates(lag, from_at=int(lag.at[0]), until_at=int(lag.at[-1]))
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


def _write_tables(folder: RunFolder, records: Sequence[TelemetryRecord]) -> None:
    lines = [
        {
            "at": record.at,
            "source": record.source,
            "kind": record.__struct_config__.tag,
            "record": encode_record(record).decode(),
        }
        for record in records
    ]
    lag = [
        {
            "at": record.at,
            "partition": partition,
            "end_offset": end,
            "committed": committed,
            "lag": None if committed is None else max(0, end - committed),
        }
        for record in records
        if isinstance(record, LagSample)
        for partition, end, committed in record.partitions
    ]
    replicas = [
        {"at": r.at, "spec": r.spec, "current": r.current, "ready": r.ready}
        for r in records
        if isinstance(r, ReplicaSample)
    ]
    _write(folder, "telemetry", pa.Table.from_pylist(lines, schema=_TELEMETRY))
    _write(folder, "lag", pa.Table.from_pylist(lag, schema=_LAG))
    _write(folder, "replicas", pa.Table.from_pylist(replicas, schema=_REPLICAS))
    _write(folder, "partition_gaps", pa.Table.from_pylist([], schema=_PARTITION_GAPS))
    _write(folder, "bad_messages", pa.Table.from_pylist([], schema=_BAD_MESSAGES))


def _write(folder: RunFolder, name: str, table: pa.Table) -> None:
    path = folder.table(name)
    path.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path / "part-0.parquet")
