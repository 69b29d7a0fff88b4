"""Accounting as measures: the counts that Spark made by identity, and who did it.

The classes are decided in the Spark job; here they are only grouped, so that a verdict can name
the pod, the partitions and the rebalance or SIGTERM next to the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lagbench.core.measures import Accounting, BadMessageGroup, PodWork

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
    counts: Mapping[str, Any] | None, bad_messages: Iterable[BadMessage]
) -> Accounting:
    """Return the accounting; without ``accounting.json`` every count is None."""
    groups = bad_message_groups(bad_messages)
    if counts is None:
        return Accounting(bad_messages=groups)
    by_pod = counts.get("by_pod") or {}
    return Accounting(
        **{name: counts.get(name) for name in COUNTS},
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
