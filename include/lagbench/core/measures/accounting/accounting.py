"""Group Spark's accounting by message identity into measures that name pod and cause.

The Spark job decides the classes. This module only groups them, so that a verdict can name the
pod, the partitions and the rebalance or SIGTERM next to the messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from lagbench.core.measures.accounting.commit_moves import CommitMove
from lagbench.core.measures.accounting.records import (
    MovedKeys,
    StrangeRecord,
    UnknownOwnership,
    UnledgeredWork,
)
from lagbench.core.measures.accounting.sums import broken_classes
from lagbench.core.measures.model import Interval, MeasureModel, NamedMeasure
from lagbench.shared_with_spark import message_classes

LISTED_AT_MOST = 100_000
"""Up to this number in all classes the table ``bad_messages`` has each; else a share of a class."""
_SIGTERM = "sigterm"
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
RECORDED = (*COUNTS, "strangers", "unknown_ownership", "unbounded_pods", "unledgered_bound")
"""What the file must have, so that no count is zero because it is not there."""


class PodWork(MeasureModel):
    """Records finished by a pod, and how many of them had already been processed."""

    pod: str
    processed: int
    duplicated: int


class BadMessageGroup(MeasureModel):
    """Bad messages of one class with the same pod and cause."""

    message_class: str  # lost, duplicated, reordered, zombie, …
    pod: str | None
    other_pod: str | None
    cause: str
    cause_pod: str | None
    count: int
    partitions: tuple[int, ...]
    first_at: int | None


class Accounting(MeasureModel):
    """Accounting by identity, as Spark wrote it to ``accounting.json``.

    ``lost_in_broker`` counts acknowledged messages that the log lacks and that no expiry explains.
    It is None unless the producer reported its acknowledgements. A count of None was not recorded.
    ``shared_with_spark/message_classes.py`` names the classes.
    """

    planned: int | None = None
    produced_acked: int | None = None
    produced_failed: int | None = None
    produced_unknown: int | None = None  # neither acknowledged nor failed at the producer's end
    in_log: int | None = None
    expired: int | None = None  # offsets deleted from the log before they were accounted for
    log_holes: int | None = None  # offsets within the log that hold no message
    processed_records: int | None = None
    processed_distinct: int | None = None
    failed: int | None = None  # given up by a pod: a dead letter in the ledger
    failed_by_plan: int | None = None  # as above, and poisoned; None: not every one is listed
    poisoned: int | None = None  # messages that had to fail; None: the scenario has no such poison
    lost: int | None = None  # by the consumers: in the log, committed, never processed
    lost_in_broker: int | None = None
    duplicated: int | None = None  # extra processings
    duplicated_messages: int | None = None
    reordered: int | None = None
    zombie: int | None = None
    not_yet_consumed: int | None = None
    produced_twice: int | None = None
    not_in_log: int | None = None  # acknowledged, but at no offset
    not_in_log_failed: int | None = None  # at no offset, and known to have failed
    not_in_log_unknown: int | None = None  # at no offset, and known to have no outcome
    not_in_log_excused: int | None = None  # at no offset; as many failed, identity not recorded
    unknown_message: int | None = None  # processed, but the log holds no such message
    foreign: int | None = None  # in the log, but no event of this run
    processed_foreign: int | None = None  # processings of foreign records
    foreign_ledger_records: int | None = None
    foreign_telemetry_records: int | None = None
    zombie_in_doubt: int | None = None  # within the bound of two clocks
    reordered_in_doubt: int | None = None  # as above
    outside_run: int | None = None  # processings stamped before or after the run
    strangers: tuple[StrangeRecord, ...] = ()  # the first of each topic
    unknown_ownership: tuple[UnknownOwnership, ...] = ()
    unbounded_pods: tuple[str, ...] = ()  # pods whose clock could not be queried
    unledgered: tuple[UnledgeredWork, ...] = ()
    commit_moves: tuple[CommitMove, ...] = ()
    below_fence: int | None = None  # offsets of the events topic up to the fence
    in_partitions: int | None = None  # in_log, summed over partitions
    processed_by_pods: int | None = None  # processed_records, summed over pods
    duplicated_by_pods: int | None = None  # duplicated, summed over pods
    broken_classes: tuple[str, ...] = ()  # classes whose count differs from their rows
    moved: MovedKeys | None = None  # None: the topic did not grow
    repeats_by_batch: dict[str, int] | None = None  # None: no repeat was of a consumer on Spark
    lacks: tuple[str, ...] = ()  # missing counts that a run of its format records
    hottest_partition_share: float | None = None
    by_cause: dict[str, int] = Field(default_factory=dict)
    by_pod: tuple[PodWork, ...] = ()
    bad_messages: tuple[BadMessageGroup, ...] = ()

    named: ClassVar[tuple[NamedMeasure[Accounting], ...]] = (
        NamedMeasure("lost", "Messages lost", "messages", 0, lambda found: found.lost_in_all),
        NamedMeasure(
            "failed",
            "Messages failed without poison",
            "messages",
            0,
            lambda found: found.failed_unplanned,
        ),
        NamedMeasure(
            "duplicated",
            "Double-processing in the ledger",
            "processings",
            0,
            lambda found: found.duplicated,
        ),
        NamedMeasure(
            "reordered",
            "Messages reordered",
            "messages",
            0,
            lambda found: found.reordered,
            lambda found: _with_doubt(found.reordered, found.reordered_in_doubt),
        ),
        NamedMeasure(
            "moved_keys",
            "Keys that moved partition",
            "keys",
            0,
            lambda found: None if found.moved is None else found.moved.keys,
        ),
        NamedMeasure(
            "overtaken",
            "Overtaken by their key elsewhere",
            "messages",
            0,
            lambda found: None if found.moved is None else found.moved.overtaken,
            lambda found: (
                None
                if found.moved is None
                else _with_doubt(found.moved.overtaken, found.moved.overtaken_in_doubt)
            ),
        ),
        NamedMeasure(
            "zombies",
            "Two owners at once",
            "messages",
            0,
            lambda found: found.zombie,
            lambda found: _with_doubt(found.zombie, found.zombie_in_doubt),
        ),
        NamedMeasure(
            "lost_at_shutdown",
            "Messages lost around a SIGTERM",
            "messages",
            0,
            lambda found: found.caused_by_shutdown("lost"),
        ),
        NamedMeasure(
            "duplicated_at_shutdown",
            "Messages repeated around a SIGTERM",
            "messages",
            0,
            lambda found: found.caused_by_shutdown("duplicated"),
        ),
    )

    @property
    def commits_moved_back(self) -> int:
        """Number of times that the group's committed offset was set back."""
        return len(self.commit_moves)

    @property
    def repeated_at_least(self) -> int:
        """Messages between the offsets from which and to which commits were set back."""
        return sum(move.from_offset - move.to_offset for move in self.commit_moves)

    def caused_by_shutdown(self, message_class: Literal["lost", "duplicated"]) -> int | None:
        """Return the messages of the class whose cause is a pod's SIGTERM; None: not all listed."""
        count = self.lost if message_class == "lost" else self.duplicated
        groups = [group for group in self.bad_messages if group.message_class == message_class]
        if count is None or sum(group.count for group in groups) < count:
            return None
        return sum(group.count for group in groups if group.cause == _SIGTERM)

    @property
    def failed_unplanned(self) -> int | None:
        """Messages that a pod gave up although they were not poisoned."""
        if self.failed is None or self.failed_by_plan is None:
            return None
        return self.failed - self.failed_by_plan

    @property
    def lost_in_all(self) -> int | None:
        """Messages proven lost, by consumers or in the broker."""
        return None if self.lost is None else self.lost + (self.lost_in_broker or 0)


def _with_doubt(count: int | None, in_doubt: int | None) -> Interval | None:
    """Return the certain count, and the count with those that two clocks leave in doubt."""
    return None if count is None else (count, count + (in_doubt or 0))


@dataclass(frozen=True, slots=True)
class BadMessage:
    """The columns of the table ``bad_messages`` that the grouping needs."""

    message_class: str
    partition: int | None
    pod: str | None
    other_pod: str | None
    cause: str
    cause_pod: str | None
    at: int | None
    seq: int | None = None


def accounting_measure(
    counts: Mapping[str, Any] | None,
    bad_messages: Iterable[BadMessage],
    *,
    fence: Mapping[str, Any] | None = None,
    unknown_telemetry: int = 0,
    commit_moves: Sequence[CommitMove] = (),
    poisoned_seqs: Collection[int] | None = None,
) -> Accounting:
    """Return the accounting; without ``accounting.json`` every count is None.

    :param fence: the run's fence; None: the run has none.
    :param unknown_telemetry: rows of the table ``telemetry`` that are not a known record.
    :param poisoned_seqs: of the messages that the scenario lets fail; None: it lets none fail.
    """
    rows = list(bad_messages)
    groups = bad_message_groups(rows)
    if counts is None:
        return Accounting(bad_messages=groups, commit_moves=tuple(commit_moves))
    by_pod = counts.get("by_pod") or {}
    known = {name: counts.get(name) for name in COUNTS}
    strange_telemetry = known[message_classes.FOREIGN_TELEMETRY]
    if unknown_telemetry or strange_telemetry is not None:
        known[message_classes.FOREIGN_TELEMETRY] = max(strange_telemetry or 0, unknown_telemetry)
    in_partitions = counts.get("partition_counts")
    failed = counts.get(message_classes.FAILED, 0)  # in earlier versions none could fail
    return Accounting(
        **known,
        failed=failed,
        failed_by_plan=None if failed is None else _failed_by_plan(failed, rows, poisoned_seqs),
        poisoned=None if poisoned_seqs is None else len(poisoned_seqs),
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
        moved=MovedKeys(**moved) if (moved := counts.get("moved_keys")) else None,
        repeats_by_batch=counts.get("repeats_by_batch"),
        below_fence=_below_fence(fence),
        in_partitions=None if in_partitions is None else sum(in_partitions.values()),
        processed_by_pods=_sum_of(by_pod, "processed") if "by_pod" in counts else None,
        duplicated_by_pods=_sum_of(by_pod, "duplicated") if "by_pod" in counts else None,
        broken_classes=tuple(_broken_classes(counts, rows)),
        lacks=tuple(name for name in RECORDED if name not in counts),
    )


def _failed_by_plan(
    failed: int, rows: Iterable[BadMessage], poisoned_seqs: Collection[int] | None
) -> int | None:
    """Return how many of the messages that failed are poisoned; None: not every one is listed."""
    listed = [row.seq for row in rows if row.message_class == message_classes.FAILED]
    if len(listed) != failed:
        return None
    poisoned = frozenset(poisoned_seqs or ())
    return sum(seq in poisoned for seq in listed)


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
    """Return the number of acknowledged messages missing from the log, minus the expired ones.

    An expired message left the log because of its topic's settings, read or not: it proves no
    loss. Without the producer's final record the expected content of the log is only a guess.
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
