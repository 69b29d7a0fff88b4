"""Group Spark's accounting by message identity into measures that name pod and cause.

The Spark job decides the classes. This module only groups them, so that a verdict can name the
pod, the partitions and the rebalance or SIGTERM next to the messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from lagbench.core.measures.accounting.accounting_sums import broken_classes
from lagbench.core.measures.lag_over_time import NeverDone
from lagbench.core.measures.model import Interval, MeasureModel
from lagbench.shared_with_spark import message_classes

_UNDONE = (message_classes.LOST, message_classes.NOT_IN_LOG, message_classes.NOT_YET_CONSUMED)


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


class StrangeRecord(MeasureModel):
    """A record in one of the run's topics that does not belong to the run."""

    topic: str  # events, processed or telemetry
    partition: int | None
    offset: int | None
    detail: str


class UnknownOwnership(MeasureModel):
    """A period with unknown ownership: a record of the pod's rebalances is missing."""

    pod: str
    from_at: int | None  # None: from its start
    until_at: int
    partitions: tuple[int, ...]


class UnledgeredWork(MeasureModel):
    """Upper bound of messages that a killed pod processed without a row in the ledger.

    ``messages`` None: no rate of work is known.
    """

    pod: str
    killed_at: int
    seconds: float
    messages: int | None


class MovedKeys(MeasureModel):
    """Keys whose partition changed when the topic grew, and the order of their messages.

    A message is overtaken if a later one of its key was begun before it in another partition.
    """

    keys: int
    messages: int  # of these keys, in the log
    overtaken_keys: int  # with at least one message overtaken
    overtaken: int
    overtaken_in_doubt: int  # too close for two clocks to decide
    most_seconds: float | None = None  # by which a message was overtaken; None: none was

    @property
    def overtaken_interval(self) -> Interval:
        """The certain count, and the count with those in doubt."""
        return self.overtaken, self.overtaken + self.overtaken_in_doubt


class CommitMove(MeasureModel):
    """The group's committed offset was set back; ``at`` is the reading that shows it."""

    at: int
    partition: int
    from_offset: int
    to_offset: int


class Counts(MeasureModel):
    """The counts of ``accounting.json``; ``message_classes.py`` names the classes."""

    planned: int | None = None
    produced_acked: int | None = None
    produced_failed: int | None = None
    produced_unknown: int | None = None  # neither acknowledged nor failed at the producer's end
    in_log: int | None = None
    expired: int | None = None  # offsets deleted from the log before they were accounted for
    log_holes: int | None = None  # offsets within the log that hold no message
    processed_records: int | None = None
    processed_distinct: int | None = None
    lost: int | None = None  # by the consumers: in the log, committed, never processed
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
    hottest_partition_share: float | None = None


RECORDED = (
    *Counts.model_fields,
    "strangers",
    "unknown_ownership",
    "unbounded_pods",
    "unledgered_bound",
)
"""Fields that the file must have, so that no count is zero because it is not there."""


class Accounting(Counts):
    """Accounting by identity: the counts, and what follows from them and from the rows.

    ``lost_in_broker`` counts acknowledged messages that the log lacks and that no expiry explains.
    It is None unless the producer reported its acknowledgements. A count of None was not recorded.
    """

    failed: int | None = None  # given up by a pod: a dead letter in the ledger
    failed_by_plan: int | None = None  # as above, and poisoned; None: not every one is listed
    poisoned: int | None = None  # messages that had to fail; None: the scenario has no such poison
    lost_in_broker: int | None = None
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
    lacks: tuple[str, ...] = ()  # missing counts
    by_cause: dict[str, int] = Field(default_factory=dict)
    by_pod: tuple[PodWork, ...] = ()
    bad_messages: tuple[BadMessageGroup, ...] = ()

    @property
    def commits_moved_back(self) -> int:
        """Number of times that the group's committed offset was set back."""
        return len(self.commit_moves)

    @property
    def repeated_at_least(self) -> int:
        """Messages between the offsets from which and to which commits were set back."""
        return sum(move.from_offset - move.to_offset for move in self.commit_moves)

    @property
    def lost_at_shutdown(self) -> int | None:
        """Messages lost whose cause is a pod's SIGTERM; None: not all are listed."""
        return self._caused_by_shutdown("lost", self.lost)

    @property
    def duplicated_at_shutdown(self) -> int | None:
        """Likewise of the processings that repeat one."""
        return self._caused_by_shutdown("duplicated", self.duplicated)

    def _caused_by_shutdown(self, message_class: str, count: int | None) -> int | None:
        groups = [group for group in self.bad_messages if group.message_class == message_class]
        if count is None or sum(group.count for group in groups) < count:
            return None
        return sum(group.count for group in groups if group.cause == "sigterm")

    @property
    def failed_unplanned(self) -> int | None:
        """Messages that a pod gave up although they were not poisoned."""
        if self.failed is None or self.failed_by_plan is None:
            return None
        return self.failed - self.failed_by_plan

    @property
    def reordered_interval(self) -> Interval | None:
        """The certain count, and the count with those that two clocks leave in doubt."""
        return _with_doubt(self.reordered, self.reordered_in_doubt)

    @property
    def zombie_interval(self) -> Interval | None:
        """Likewise of the zombies."""
        return _with_doubt(self.zombie, self.zombie_in_doubt)

    @property
    def lost_in_all(self) -> int | None:
        """Messages proven lost, by consumers or in the broker."""
        return None if self.lost is None else self.lost + (self.lost_in_broker or 0)


def _with_doubt(count: int | None, in_doubt: int | None) -> Interval | None:
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
    known = {name: counts.get(name) for name in Counts.model_fields}
    strange = known[message_classes.FOREIGN_TELEMETRY]
    if unknown_telemetry or strange is not None:
        known[message_classes.FOREIGN_TELEMETRY] = max(strange or 0, unknown_telemetry)
    work = tuple(
        PodWork(pod=pod, processed=of.get("processed", 0), duplicated=of.get("duplicated", 0))
        for pod, of in sorted((counts.get("by_pod") or {}).items())
    )
    has_pods = "by_pod" in counts
    in_partitions, ends = counts.get("partition_counts"), (fence or {}).get("events")
    failed = counts.get(message_classes.FAILED, 0)
    listed = [row.seq for row in rows if row.message_class == message_classes.FAILED]
    # An expired message left the log because of its topic's settings, read or not: it proves no
    # loss. Without the producer's final record the expected content of the log is only a guess.
    lost_of = [counts.get(name) for name in ("not_in_log", "expired", "produced_acked")]
    known_lost = [int(count) for count in lost_of if count is not None]
    return Accounting(
        **known,
        failed=failed,
        failed_by_plan=sum(seq in (poisoned_seqs or ()) for seq in listed)
        if failed == len(listed)
        else None,
        poisoned=None if poisoned_seqs is None else len(poisoned_seqs),
        lost_in_broker=max(0, known_lost[0] - known_lost[1]) if len(known_lost) == 3 else None,
        by_cause=counts.get("by_cause") or {},
        by_pod=work,
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
        below_fence=None if ends is None else sum(map(int, ends.values())),
        in_partitions=None if in_partitions is None else sum(in_partitions.values()),
        processed_by_pods=sum(one.processed for one in work) if has_pods else None,
        duplicated_by_pods=sum(one.duplicated for one in work) if has_pods else None,
        broken_classes=tuple(broken_classes(counts, Counter(row.message_class for row in rows))),
        lacks=tuple(name for name in RECORDED if name not in counts),
    )


def bad_message_groups(bad_messages: Iterable[BadMessage]) -> tuple[BadMessageGroup, ...]:
    """Return the bad messages grouped by class, pods and cause, largest group first."""
    grouped: dict[tuple[Any, ...], list[BadMessage]] = {}
    for bad in bad_messages:
        key = (bad.message_class, bad.pod, bad.other_pod, bad.cause, bad.cause_pod)
        grouped.setdefault(key, []).append(bad)
    names = ("message_class", "pod", "other_pod", "cause", "cause_pod")
    groups = [
        BadMessageGroup(
            **dict(zip(names, key, strict=True)),
            count=len(rows),
            partitions=tuple(sorted({r.partition for r in rows if r.partition is not None})),
            first_at=min((row.at for row in rows if row.at is not None), default=None),
        )
        for key, rows in grouped.items()
    ]
    return tuple(sorted(groups, key=lambda g: (-g.count, g.message_class, g.pod or "")))


def commits_moved_back(
    readings: Iterable[tuple[int, int, int | None]], fenced: tuple[int, dict[int, int]] | None
) -> tuple[CommitMove, ...]:
    """Return where the group's committed offset moved back, by instant.

    A pod learns of its commits from callbacks, which can overtake each other. The coordinator's
    offsets cannot: one that is lower in a later reading was set back, and the messages in between
    are processed again.

    :param readings: at, partition and committed offset (None: none), in any order.
    :param fenced: the fence's instant and committed offsets, the last reading.
    """
    known = [(at, partition, offset) for at, partition, offset in readings if offset is not None]
    if fenced is not None:
        known += [(fenced[0], partition, offset) for partition, offset in fenced[1].items()]
    last: dict[int, int] = {}
    moves = []
    for at, partition, offset in sorted(known):
        before = last.get(partition, offset)
        if offset < before:
            moves.append(
                CommitMove(at=at, partition=partition, from_offset=before, to_offset=offset)
            )
        last[partition] = offset
    return tuple(moves)


def never_done(
    found: Accounting, rows: Iterable[BadMessage], planned_messages: int
) -> NeverDone | None:
    """Return the bounds of the messages never done; None: without an accounting it is not known.

    A message of the planned window has a seq below ``planned_messages``. One that is not listed,
    or has no seq, may be of the window. A message that left the log, or whose delivery may have
    failed, proves nothing, and a record of the ledger that names no message may be of any.
    """
    if found.lost is None or found.not_yet_consumed is None:
        return None
    undone = [row for row in rows if row.message_class in _UNDONE and row.seq is not None]
    inside = Counter(r.message_class for r in undone if (r.seq or 0) < planned_messages)
    outside = len(undone) - inside.total()
    absent = (found.not_in_log or 0) + (found.not_in_log_excused or 0)
    in_doubt = absent - (found.lost_in_broker or 0) + (found.foreign_ledger_records or 0)
    gone = inside[message_classes.NOT_IN_LOG] + inside[message_classes.LOST] - in_doubt
    most = found.lost + absent + found.not_yet_consumed - outside
    return NeverDone(
        planned=planned_messages,
        at_least=min(max(0, gone), planned_messages),
        at_most=max(0, min(most, planned_messages)),
    )


def moved_text(found: Accounting) -> str:
    """Return a sentence on the keys that moved; empty if the topic did not grow."""
    moved = found.moved
    if moved is None:
        return ""
    text = f"the topic grew: {moved.keys:,} keys ({moved.messages:,} messages) moved partition"
    if not moved.overtaken and not moved.overtaken_in_doubt:
        return f"{text}, and each kept its order"
    parts = []
    if moved.overtaken:
        seconds = "" if moved.most_seconds is None else f", by up to {moved.most_seconds:.1f} s"
        parts.append(
            f"{moved.overtaken:,} messages of {moved.overtaken_keys:,} of them were begun after a "
            f"later one of their key in another partition{seconds}"
        )
    if moved.overtaken_in_doubt:
        parts.append(f"{moved.overtaken_in_doubt:,} are in doubt between two clocks")
    return f"{text}; {', and '.join(parts)} (Kafka keeps an order only within a partition)"
