"""Accounting as measures: the counts that Spark made by identity, and who did it.

The classes are decided in the Spark job; here they are only grouped, so that a verdict can name
the pod, the partitions and the rebalance or SIGTERM next to the messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lagbench.core.measures.accounting import message_classes
from lagbench.core.measures.accounting.sums import broken_classes
from lagbench.core.measures.evidence.format import CURRENT_FORMAT
from lagbench.core.measures.measures import (
    Accounting,
    BadMessageGroup,
    CommitMove,
    PodWork,
    StrangeRecord,
    UnknownOwnership,
    UnledgeredWork,
)

LISTED_AT_MOST = 100_000
"""The table ``bad_messages`` has every one of so many; of more, a share of each class."""
_SINCE_FORMAT_2 = (
    message_classes.FOREIGN,
    "processed_foreign",
    message_classes.FOREIGN_LEDGER,
    message_classes.FOREIGN_TELEMETRY,
    message_classes.ZOMBIE_IN_DOUBT,
    message_classes.REORDERED_IN_DOUBT,
    message_classes.NOT_IN_LOG_FAILED,
    message_classes.NOT_IN_LOG_UNKNOWN,
    "outside_run",
)
_LISTS_SINCE_FORMAT_2 = ("strangers", "unknown_ownership", "unbounded_pods", "unledgered_bound")
COUNTS = (
    "planned",
    "produced_acked",
    "produced_failed",
    "produced_unknown",
    "in_log",
    "expired",
    "log_holes",
    "processed_records",
    "processed_distinct",
    "lost",
    "duplicated",
    "duplicated_messages",
    "reordered",
    "zombie",
    "not_yet_consumed",
    "produced_twice",
    "not_in_log",
    "not_in_log_excused",
    "unknown_message",
    "hottest_partition_share",
)


@dataclass(frozen=True, slots=True)
class BadMessage:
    """What the grouping needs of a row of the table ``bad_messages``."""

    message_class: str
    partition: int | None
    pod: str | None
    other_pod: str | None
    cause: str
    cause_pod: str | None
    at: int | None


def accounting_measure(
    counts: Mapping[str, Any] | None,
    bad_messages: Iterable[BadMessage],
    *,
    run_format: int | None = None,
    fence: Mapping[str, Any] | None = None,
    unknown_telemetry: int = 0,
    commit_moves: Sequence[CommitMove] = (),
) -> Accounting:
    """Return the accounting; without ``accounting.json`` every count is None.

    :param run_format: of the run folder: what its version records, the file must have.
    :param fence: the run's; None: there is none.
    :param unknown_telemetry: rows of the table ``telemetry`` that are no known record.
    """
    rows = list(bad_messages)
    groups = bad_message_groups(rows)
    if counts is None:
        return Accounting(bad_messages=groups, commit_moves=tuple(commit_moves))
    by_pod = counts.get("by_pod") or {}
    known = {name: counts.get(name) for name in (*COUNTS, *_SINCE_FORMAT_2)}
    strange_telemetry = known[message_classes.FOREIGN_TELEMETRY]
    if unknown_telemetry or strange_telemetry is not None:
        known[message_classes.FOREIGN_TELEMETRY] = max(strange_telemetry or 0, unknown_telemetry)
    in_partitions = counts.get("partition_counts")
    return Accounting(
        **known,
        lost_in_broker=_lost_in_broker(counts),
        by_cause=counts.get("by_cause") or {},
        by_pod=tuple(
            PodWork(
                pod=pod,
                processed=int(by_pod[pod].get("processed", 0)),
                duplicated=int(by_pod[pod].get("duplicated", 0)),
            )
            for pod in sorted(by_pod)
        ),
        bad_messages=groups,
        strangers=tuple(StrangeRecord(**found) for found in counts.get("strangers") or ()),
        unknown_ownership=tuple(
            UnknownOwnership(**found) for found in counts.get("unknown_ownership") or ()
        ),
        unbounded_pods=tuple(counts.get("unbounded_pods") or ()),
        unledgered=tuple(UnledgeredWork(**f) for f in counts.get("unledgered_bound") or ()),
        commit_moves=tuple(commit_moves),
        below_fence=_below_fence(fence),
        in_partitions=None if in_partitions is None else sum(in_partitions.values()),
        processed_by_pods=_sum_of(by_pod, "processed") if "by_pod" in counts else None,
        duplicated_by_pods=_sum_of(by_pod, "duplicated") if "by_pod" in counts else None,
        broken_classes=tuple(_broken_classes(counts, rows)),
        lacks=tuple(name for name in _recorded_by(run_format) if name not in counts),
    )


def _recorded_by(run_format: int | None) -> Sequence[str]:
    if run_format is None:
        return ()
    is_current = run_format >= CURRENT_FORMAT
    return (*COUNTS, *_SINCE_FORMAT_2, *_LISTS_SINCE_FORMAT_2) if is_current else COUNTS


def _below_fence(fence: Mapping[str, Any] | None) -> int | None:
    ends = (fence or {}).get("events")
    return None if ends is None else sum(int(end) for end in ends.values())


def _sum_of(by_pod: Mapping[str, Mapping[str, Any]], name: str) -> int:
    return sum(int(work.get(name, 0)) for work in by_pod.values())


def _broken_classes(counts: Mapping[str, Any], rows: Sequence[BadMessage]) -> list[str]:
    by_cause = counts.get("by_class_and_cause") or {}
    known = {name: counts.get(name) for name in message_classes.CLASSES}
    known["not_in_log_excused"] = counts.get("not_in_log_excused")
    listed = Counter(row.message_class for row in rows)
    return broken_classes(
        known,
        by_cause,
        listed,
        is_whole_list=sum(count or 0 for count in known.values()) <= LISTED_AT_MOST,
    )


def _lost_in_broker(counts: Mapping[str, Any]) -> int | None:
    """Return the acknowledged messages that the log lacks, less as many as have expired.

    An expired message has left the log by its topic's settings, read or not: it proves no loss.
    Without the producer's last word, what should be in the log is only guessed.
    """
    acked, absent, expired = (counts.get(n) for n in ("produced_acked", "not_in_log", "expired"))
    if acked is None or absent is None or expired is None:
        return None
    return max(0, int(absent) - int(expired))


def bad_message_groups(bad_messages: Iterable[BadMessage]) -> tuple[BadMessageGroup, ...]:
    """Return the bad messages grouped by class, pods and cause, largest group first."""
    grouped: dict[tuple[str, str | None, str | None, str, str | None], list[BadMessage]] = {}
    for bad in bad_messages:
        key = (bad.message_class, bad.pod, bad.other_pod, bad.cause, bad.cause_pod)
        grouped.setdefault(key, []).append(bad)
    groups = [
        BadMessageGroup(
            message_class=key[0],
            pod=key[1],
            other_pod=key[2],
            cause=key[3],
            cause_pod=key[4],
            count=len(rows),
            partitions=tuple(sorted({r.partition for r in rows if r.partition is not None})),
            first_at=min((row.at for row in rows if row.at is not None), default=None),
        )
        for key, rows in grouped.items()
    ]
    return tuple(sorted(groups, key=lambda g: (-g.count, g.message_class, g.pod or "")))
