"""The totals of a run, as ``accounting.json`` holds them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench_spark import message_classes
from bench_spark.fence import Fence
from bench_spark.run_facts import RunFacts

TIME_LAG_METHOD = (
    "percentile_approx, accuracy 10000: exact up to 10000 processings, else rank ±1e-4"
)


class LogPart(NamedTuple):
    """What the log holds of one partition; ``first_offset`` is None when it holds nothing."""

    messages: int
    first_offset: int | None


class BadCount(NamedTuple):
    """How many bad messages there are of one class, cause and pod."""

    kind: str
    cause: str
    pod: str | None
    messages: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Everything that Spark counted."""

    log: Mapping[int, LogPart]
    processed_by_pod: Mapping[str, int]
    duplicated_messages: int
    time_lag_seconds: Mapping[str, float | None]
    bad: Sequence[BadCount]


def totals(counts: Counts, facts: RunFacts, fence: Fence) -> dict[str, Any]:
    """Return the content of ``accounting.json``; null is unknown, never zero."""
    by_class = _sums(counts.bad, "kind")
    in_log = sum(part.messages for part in counts.log.values())
    processed = sum(counts.processed_by_pod.values())
    excused = (facts.failed or 0) + (facts.unknown or 0)
    duplicated = by_class[message_classes.DUPLICATED]
    absent_before, absent_within = _absent_offsets(counts.log, fence)
    partition_counts = {
        str(p): counts.log[p].messages if p in counts.log else 0 for p in sorted(fence.events)
    }
    result: dict[str, Any] = {
        "produced_acked": facts.acked,
        "produced_failed": facts.failed,
        "produced_unknown": facts.unknown,
        "planned": facts.planned,
        "in_log": in_log,
        "expired": absent_before,
        "log_holes": absent_within,
        "processed_records": processed,
        "processed_distinct": processed - duplicated - by_class[message_classes.UNKNOWN_MESSAGE],
        "duplicated_messages": counts.duplicated_messages,
    }
    result |= {kind: by_class[kind] for kind in message_classes.CLASSES}
    # The producer knows how many deliveries failed, not which: that many absent seqs are its own.
    absent = by_class[message_classes.NOT_IN_LOG]
    result[message_classes.NOT_IN_LOG] = max(0, absent - excused)
    result["not_in_log_excused"] = min(absent, excused)
    return result | {
        "by_pod": _by_pod(counts),
        "by_cause": dict(_sums(counts.bad, "cause")),
        "by_class_and_cause": _nested(counts.bad),
        "commits_moved_back": facts.commits_moved_back,
        "time_lag_seconds": dict(counts.time_lag_seconds),
        "time_lag_method": TIME_LAG_METHOD,
        "hottest_partition_share": max(partition_counts.values()) / in_log if in_log else None,
        "partition_counts": partition_counts,
    }


def _sums(bad: Sequence[BadCount], field: str) -> Counter[str]:
    sums: Counter[str] = Counter()
    for part in bad:
        sums[getattr(part, field)] += part.messages
    return sums


def _nested(bad: Sequence[BadCount]) -> dict[str, dict[str, int]]:
    nested: dict[str, Counter[str]] = defaultdict(Counter)
    for part in bad:
        nested[part.kind][part.cause] += part.messages
    return {kind: dict(causes) for kind, causes in sorted(nested.items())}


def _by_pod(counts: Counts) -> dict[str, dict[str, int]]:
    repeated: Counter[str | None] = Counter()
    for part in counts.bad:
        if part.kind == message_classes.DUPLICATED:
            repeated[part.pod] += part.messages
    return {
        pod: {"processed": processed, "duplicated": repeated[pod]}
        for pod, processed in sorted(counts.processed_by_pod.items())
    }


def _absent_offsets(log: Mapping[int, LogPart], fence: Fence) -> tuple[int, int]:
    """Return how many offsets below the fence lie before the log's start, and how many within.

    The events topic has neither transactions nor compaction, so both are messages that are gone.
    """
    before = within = 0
    for partition, end in fence.events.items():
        part = log.get(partition, LogPart(0, None))
        start = end if part.first_offset is None else part.first_offset
        before += start
        within += end - start - part.messages
    return before, within
