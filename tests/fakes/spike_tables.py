"""Tables and files of a simulated run, in the shapes that the Spark jobs write."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.fakes.spike_simulation import STEP_SECONDS, Outcome

Rows = list[tuple[Any, ...]]


def manifest(epoch: int, run_id: str) -> dict[str, Any]:
    """Return a manifest with fixed versions."""
    return {
        "run_id": run_id,
        "folder_format": 2,
        "created_at": epoch - 12_000_000_000,
        "scenario": "quick_spike",
        "policy": "lag-fast",
        "seed": 1,
        "fidelity": "processes",
        "conf": {"scenario": "quick_spike", "policy": "lag-fast", "seed": 1},
        "versions": {
            "python": "3.11.7",
            "lagbench": "0.1.0",
            "apache-airflow": "3.3.2",
            "pyspark": "4.2.0",
            "confluent-kafka": "2.16.1",
            "kubernetes": "36.0.3",
            "kafka-broker": "4.3.1",
        },
        "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "is_dirty": False},
        "machine": {
            "cores": 2,
            "memory_bytes": 25_769_803_776,
            "system": "Linux",
            "architecture": "x86_64",
        },
    }


def tables(out: Outcome) -> dict[str, Rows]:
    """Return every small table of the run."""
    return {
        "timeline": _timeline(out),
        "timeline_by_pod": _timeline_by_pod(out),
        "partition_gaps": _partition_gaps(out),
        "lag": _lag(out),
        "replicas": replicas(out),
        "latency": _latency(out),
        "bad_messages": [],
    }


def _timeline(out: Outcome) -> Rows:
    done = out.done_by_partition.sum(axis=1)
    return [
        (out.at(second), int(offered.sum()), int(count), 0)
        for second, offered, count in zip(out.seconds, out.offered, done, strict=True)
    ]


def _timeline_by_pod(out: Outcome) -> Rows:
    counts: Counter[tuple[int, str]] = Counter()
    for second, step in zip(out.seconds, out.done, strict=True):
        for pod, partitions in step.items():
            counts[(int(second), pod)] += sum(partitions.values())
    return [(out.at(at), pod, count) for (at, pod), count in sorted(counts.items())]


def _partition_gaps(out: Outcome) -> Rows:
    last: dict[int, tuple[str, float]] = {}
    rows: Rows = []
    for second, step in zip(out.seconds, out.done, strict=True):
        for pod, partitions in sorted(step.items()):
            for partition in sorted(partitions):
                known = last.get(partition)
                if known is not None and known[0] != pod:
                    gap = round(second - known[1], 3)
                    bounds = (out.at(known[1]), out.at(second))
                    rows.append((partition, known[0], pod, *bounds, gap))
                last[partition] = (pod, second)
    return rows


def _lag(out: Outcome) -> Rows:
    ends, committed = out.ends, out.committed
    rows: Rows = []
    for second in range(int(out.story.end_seconds) + 1):
        for partition in range(out.story.partitions):
            end, commit = int(ends[second, partition]), int(committed[second, partition])
            rows.append((out.at(second), partition, end, commit, max(0, end - commit)))
    final = [int(end) for end in ends[-1]]
    at = out.at(out.story.end_seconds + 2)  # all commits are in
    return rows + [(at, partition, end, end, 0) for partition, end in enumerate(final)]


def replicas(out: Outcome) -> Rows:
    """Return instant, wanted, present and ready replicas of each second."""
    rows: Rows = []
    for second in range(-3, int(out.story.end_seconds) + 3):
        wanted = [count for at, count in out.wanted if at <= max(second, 0)][-1]
        here = [p for p in out.pods if p.created <= second and (p.gone is None or second < p.gone)]
        ready = sum(p.created + out.story.ready_after_seconds <= second for p in here)
        rows.append((out.at(second), wanted, len(here), ready))
    return rows


def _waits(out: Outcome) -> dict[int, npt.NDArray[np.float64]]:
    """Return done_at - planned_at of every record, by the second in which it was done."""
    done = out.done_by_partition
    offered = np.cumsum(np.stack(out.offered), axis=0)
    total = np.cumsum(done, axis=0)
    waits: dict[int, list[npt.NDArray[np.float64]]] = {}
    for partition in range(out.story.partitions):
        for index in np.flatnonzero(done[:, partition]):
            count = int(done[index, partition])
            offsets = np.arange(int(total[index, partition]) - count, int(total[index, partition]))
            planned = np.searchsorted(offered[:, partition], offsets, side="right")
            seconds = (index - planned) * STEP_SECONDS + out.story.process_ms / 1000
            waits.setdefault(int(out.seconds[index]), []).append(seconds)
    return {second: np.concatenate(waits[second]) for second in sorted(waits)}


def _quantiles(values: npt.NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(q), 4) for q in np.percentile(values, [50, 95, 99, 100]))


def _latency(out: Outcome) -> Rows:
    return [
        (out.at(second), len(values), *_quantiles(values)) for second, values in _waits(out).items()
    ]


def fence(out: Outcome) -> dict[str, Any]:
    """Return the fence: everything is consumed."""
    ends = {str(p): int(end) for p, end in enumerate(out.ends[-1])}
    return {
        "events": ends,
        "processed": {str(partition): 900 + partition for partition in range(6)},
        "telemetry": {"0": 4321},
        "committed": dict(ends),
        "fenced_at": out.at(out.story.end_seconds + 4),
    }


def accounting(out: Outcome) -> dict[str, Any]:
    """Return the accounting of a run in which nothing went wrong."""
    ends = out.ends[-1]
    total = int(ends.sum())
    by_pod: Counter[str] = Counter()
    for step in out.done:
        for pod, partitions in step.items():
            by_pod[pod] += sum(partitions.values())
    all_waits = np.concatenate(list(_waits(out).values()))
    none = ("lost", "duplicated", "duplicated_messages", "reordered", "zombie", "not_yet_consumed",
            "produced_twice", "not_in_log", "not_in_log_excused", "unknown_message", "expired",
            "log_holes", "produced_failed", "produced_unknown", "foreign", "processed_foreign",
            "foreign_ledger_records", "foreign_telemetry_records", "zombie_in_doubt",
            "reordered_in_doubt", "not_in_log_failed", "not_in_log_unknown",
            "outside_run")  # fmt: skip
    lists = ("strangers", "unknown_ownership", "unbounded_pods", "unledgered_bound")
    counts = ("produced_acked", "planned", "in_log", "processed_records", "processed_distinct")
    return {
        **dict.fromkeys(counts, total),
        **dict.fromkeys(none, 0),
        **{key: [] for key in lists},
        "by_pod": {pod: {"processed": n, "duplicated": 0} for pod, n in sorted(by_pod.items())},
        "by_cause": {},
        "time_lag_seconds": dict(
            zip(("p50", "p95", "p99", "max"), _quantiles(all_waits), strict=True)
        ),
        "hottest_partition_share": round(float(ends.max()) / total, 6),
    }
