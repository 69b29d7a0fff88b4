"""Compute the totals of a run for ``accounting.json``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lagbench.core.ownership import Hole, RunFacts, Unledgered
from lagbench.shared_with_spark import message_classes
from lagbench_spark.fence import Fence
from lagbench_spark.rows import Stranger

TIME_LAG_METHOD = "order statistics: exact up to 10000 processings a second, else rank ±1e-4"

_OF_REPORTS = (
    message_classes.ZOMBIE,
    message_classes.ZOMBIE_IN_DOUBT,
    message_classes.FAILED,
)
_OF_WORK = (
    "processed_records",
    "processed_distinct",
    "processed_foreign",
    "duplicated_messages",
    message_classes.LOST,
    message_classes.NOT_YET_CONSUMED,
    message_classes.DUPLICATED,
    message_classes.REORDERED,
    message_classes.REORDERED_IN_DOUBT,
    message_classes.UNKNOWN_MESSAGE,
)


class LogPart(NamedTuple):
    """The log's messages of one partition; ``first_offset`` is None if there are none."""

    messages: int
    first_offset: int | None


class BadCount(NamedTuple):
    """The number of bad messages of one class, cause and pod."""

    kind: str
    cause: str
    pod: str | None
    messages: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of the Spark job."""

    log: Mapping[int, LogPart]
    processed_by_pod: Mapping[str, int]
    duplicated_messages: int
    time_lag: tuple[Mapping[str, float | None], Mapping[str, float | None] | None]
    bad: Sequence[BadCount]
    message_seconds: float | None = None  # median, from started to done; None: nothing was done
    foreign_log: Mapping[int, LogPart] = field(default_factory=dict)
    processed_foreign: int = 0
    outside_run: int = 0
    strangers: Sequence[Stranger] = ()
    foreign_records: Mapping[str, int] = field(default_factory=dict)  # of ledger and telemetry
    unknown_ownership: Sequence[Hole] = ()
    unbounded_pods: Sequence[str] = ()
    unledgered: Sequence[Unledgered] = ()
    moved_keys: Mapping[str, Any] | None = None  # None: the topic did not grow
    repeats_by_batch: Mapping[str, int] | None = None  # None: no repeat was of a Spark consumer


def totals(counts: Counts, facts: RunFacts, fence: Fence) -> dict[str, Any]:
    """Return the content of ``accounting.json``; null is unknown, never zero."""
    by_class = _sums(counts.bad, "kind")
    log = _whole_log(counts)
    in_log = sum(part.messages for part in log.values())
    processed = sum(counts.processed_by_pod.values())
    absent_before, absent_within = _absent_offsets(log, fence)
    partition_counts = {
        str(p): log[p].messages if p in log else 0 for p in sorted({*fence.events, *log})
    }
    beside = (message_classes.DUPLICATED, message_classes.UNKNOWN_MESSAGE, message_classes.FAILED)
    distinct = processed - counts.processed_foreign - sum(by_class[kind] for kind in beside)
    result: dict[str, Any] = {
        "produced_acked": facts.acked,
        "produced_failed": facts.failed,
        "produced_unknown": facts.unknown,
        "planned": facts.planned,
        "in_log": in_log,
        "expired": absent_before,
        "log_holes": absent_within,
        "processed_records": processed,
        "processed_distinct": distinct,
        "processed_foreign": counts.processed_foreign,
        "duplicated_messages": counts.duplicated_messages,
    }
    result |= {kind: by_class[kind] for kind in message_classes.CLASSES}
    result |= _absent_seqs(by_class, facts) | dict(counts.foreign_records)
    result |= dict.fromkeys(_unknown(fence))
    during, after = counts.time_lag
    return result | {
        "outside_run": counts.outside_run if fence.has_work else None,
        "strangers": [stranger._asdict() for stranger in counts.strangers],
        "unknown_ownership": [_hole(hole) for hole in counts.unknown_ownership],
        "unbounded_pods": list(counts.unbounded_pods),
        "unledgered_bound": [found._asdict() for found in counts.unledgered],
        "by_pod": _by_pod(counts),
        "by_cause": dict(_sums(counts.bad, "cause")),
        "by_class_and_cause": _nested(counts.bad),
        "time_lag_seconds": dict(during),
        "time_lag_seconds_after": None if after is None else dict(after),
        "time_lag_method": TIME_LAG_METHOD,
        "message_seconds": counts.message_seconds,
        "hottest_partition_share": max(partition_counts.values()) / in_log if in_log else None,
        "partition_counts": partition_counts,
        "moved_keys": None if counts.moved_keys is None else dict(counts.moved_keys),
        "repeats_by_batch": counts.repeats_by_batch,
    }


def _unknown(fence: Fence) -> Sequence[str]:
    """Return the counts that the level of a user's consumer does not know: null, not zero."""
    if fence.accounting is None:
        return ()
    return _OF_REPORTS if fence.has_work else (*_OF_REPORTS, *_OF_WORK)


def _whole_log(counts: Counts) -> dict[int, LogPart]:
    """Return the log's messages, including strangers."""
    whole = dict(counts.log)
    for partition, foreign in counts.foreign_log.items():
        own = whole.get(partition, LogPart(0, None))
        firsts = [part.first_offset for part in (own, foreign) if part.first_offset is not None]
        whole[partition] = LogPart(own.messages + foreign.messages, min(firsts, default=None))
    return whole


def _absent_seqs(by_class: Counter[str], facts: RunFacts) -> dict[str, int]:
    """Return the counts of absent seqs: those acknowledged, and those that may not have been.

    If the producer reported which deliveries failed, each is known. Else only their number is: that
    many absent seqs may be failed deliveries, and every further one was certainly acknowledged.
    """
    absent = by_class[message_classes.NOT_IN_LOG]
    excusable = sum(
        count or 0
        for count, reported in (
            (facts.failed, facts.failed_seqs),
            (facts.unknown, facts.unknown_seqs),
        )
        if reported is None
    )
    excused = min(absent, excusable)
    return {message_classes.NOT_IN_LOG: absent - excused, "not_in_log_excused": excused}


def _hole(hole: Hole) -> dict[str, Any]:
    return {**hole._asdict(), "partitions": sorted(hole.partitions or ())}


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
    """Return how many offsets below the fence are missing before the log's start, and within it.

    The events topic has neither transactions nor compaction, so both are missing messages.
    """
    before = within = 0
    for partition, end in fence.events.items():
        part = log.get(partition, LogPart(0, None))
        start = end if part.first_offset is None else part.first_offset
        before += start
        within += end - start - part.messages
    return before, within
