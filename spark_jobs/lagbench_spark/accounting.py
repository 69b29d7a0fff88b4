"""Account for every message of a run: unite what each partition showed, and write the tables.

The sample of the time lag is the messages that the scenario planned before the tail. The length of
the tail after it says nothing about the policy, so the tail is reported apart.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lagbench.core.ownership.causes import Ledgered, unledgered_bounds
from lagbench.core.ownership.holdings import clock_of
from lagbench.core.ownership.run_facts import RunFacts
from lagbench.shared_with_spark import message_classes as classes
from lagbench_spark import schemas
from lagbench_spark.bad_messages import MOST_ROWS_WRITTEN, bad_rows, blamed, fair_share
from lagbench_spark.judge import NAMED_STRANGERS, Counts, first_strangers, judge
from lagbench_spark.landing import Run
from lagbench_spark.messages import Mask, Rules, read_events
from lagbench_spark.moved import moved_keys
from lagbench_spark.timelines import message_seconds, time_lag, timelines

TIME_LAG_METHOD = "order statistics: exact up to 10000 processings a second, else rank ±1e-4"
_OF_REPORTS = (classes.ZOMBIE, classes.ZOMBIE_IN_DOUBT, classes.FAILED)
_OF_WORK = (
    "processed_records",
    "processed_distinct",
    "processed_foreign",
    "duplicated_messages",
    "outside_run",
    classes.LOST,
    classes.NOT_YET_CONSUMED,
    classes.DUPLICATED,
    classes.REORDERED,
    classes.REORDERED_IN_DOUBT,
    classes.UNKNOWN_MESSAGE,
)


@dataclass(slots=True)
class Found:
    """The findings of all partitions; ``tables`` have their rows one after the other.

    ``seen`` and ``twice``: which seqs the log has, and which more than once. ``log``: messages and
    first offset by partition, strangers included. ``holes``: the partitions on which a pod worked
    while its records have a hole, by its pod, begin and end.
    """

    seen: Mask
    twice: Mask
    counts: Counts = field(default_factory=Counter)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    log: dict[int, tuple[int, int]] = field(default_factory=dict)
    holes: dict[tuple[Any, ...], list[int]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, rules: Rules, contents: Iterable[bytes]) -> Found:
        """Unite what ``judge`` returned of each partition."""
        found = cls(np.zeros(rules.seqs, bool), np.zeros(rules.seqs, bool))
        parts: dict[str, list[pa.Table]] = defaultdict(list)
        for content in contents:
            each = pickle.loads(zlib.decompress(content))  # noqa: S301 - of the job's executors
            found.counts.update(each["counts"])
            found.log |= each["log"]
            for hole in each["holes"]:
                found.holes[hole].append(each["partition"])
            seen = np.unpackbits(each["seen"], count=rules.seqs).astype(bool)
            found.twice |= found.seen & seen
            found.twice[each["twice"]] = True
            found.seen |= seen
            for name, table in each["tables"].items():
                parts[name].append(table)
        found.tables = {name: pa.concat_tables(tables) for name, tables in parts.items()}
        return found

    def by(self, place: int, name: str = "bad") -> Counter[str]:
        """Return the bad messages by class (1), cause (2) or pod (3), or other counts by name."""
        sums: Counter[str] = Counter()
        for key, count in self.counts.items():
            if key[0] == name:
                sums[str(key[place])] += count
        return sums

    def add(self, bad: pa.Table, count: int) -> None:
        """Add messages of one class without a cause, of which some are listed."""
        if count:
            self.counts["bad", bad["class"][0].as_py(), "none", None] += count
            self.tables["bad"] = pa.concat_tables([self.tables["bad"], bad])


def account(run: Run) -> dict[str, Any]:
    """Write every table but the landed ones, and ``accounting.json``; return the latter."""
    rules = run.rules
    judged = run.by_partition(partial(_packed, rules), "content binary").collect()
    found = Found.of(rules, (row["content"] for row in judged))
    if found.twice.any():
        columns = "partition int, offset bigint, seq bigint, entity_id bigint, at bigint"
        again = run.by_partition(partial(_events_of, rules, found.twice), columns).toArrow()
        add_produced_twice(found, again, rules.facts)
    add_not_in_log(found, rules)
    bad = fair_share(found.tables["bad"])
    run.folder.write_rows("bad_messages", schemas.BAD_MESSAGES, bad)
    for name, schema, rows in timelines(found.tables, run.samples, run.window):
        run.folder.write_rows(name, schema, rows)
    content = totals(found, rules, run.idle())
    places = sorted(run.strangers, key=lambda one: (one.partition or -1, one.offset or -1))
    content["strangers"] += [place._asdict() for place in places[:NAMED_STRANGERS]]
    content[classes.FOREIGN_TELEMETRY] = len(run.strangers) + rules.facts.strangers
    content["moved_keys"] = moved_keys(run, [*found.by(1, "own")])
    run.folder.write_json("accounting.json", content)
    return content


def _packed(
    rules: Rules, partition: int | None, events: pa.Table, work: pa.Table
) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"content": [judge(rules, partition, events, work)]})


def _events_of(
    rules: Rules, seqs: Mask, partition: int | None, events: pa.Table, _work: pa.Table
) -> pa.RecordBatch:
    """Return the events that have one of the seqs."""
    log = read_events(rules, events)[0]
    chosen = np.isin(log["seq"], np.flatnonzero(seqs))
    names = {"offset": "offset", "seq": "seq", "entity_id": "entity_id", "logged_at": "at"}
    columns = {name: log[of][chosen] for of, name in names.items()}
    place = pa.repeat(pa.scalar(partition, pa.int32()), int(chosen.sum()))
    return pa.RecordBatch.from_pydict({"partition": place, **columns})


def add_produced_twice(found: Found, events: pa.Table, facts: RunFacts) -> None:
    """Add the events whose seq already has an earlier place in the log."""
    order = [(name, "ascending") for name in ("seq", "partition", "offset")]
    events = events.sort_by(order)
    again = events.filter(pa.array(np.diff(events["seq"].to_numpy(), prepend=-1) == 0))
    rows = {name: again[name].to_numpy() for name in again.column_names}
    detail = "the log also holds this seq at an earlier place"
    bad = bad_rows(classes.PRODUCED_TWICE, rows, detail=detail)
    found.add(blamed(bad, facts.causes), len(again))


def add_not_in_log(found: Found, rules: Rules) -> None:
    """Add the produced seqs that are at no offset, each with what is known of its delivery."""
    facts = rules.facts
    outcomes = {
        classes.NOT_IN_LOG: "produced",
        classes.NOT_IN_LOG_FAILED: "its delivery failed",
        classes.NOT_IN_LOG_UNKNOWN: "its delivery may have failed",
    }
    if facts.failed_seqs is None or facts.unknown_seqs is None:
        outcomes[classes.NOT_IN_LOG] += (
            f" (or one of {facts.failed} failed and {facts.unknown} unknown deliveries)"
        )
    outcome = np.zeros(rules.produced, np.int8)
    for number, ranges in ((2, facts.unknown_seqs), (1, facts.failed_seqs)):
        for first, last in ranges or ():
            outcome[first : last + 1] = number
    outcome[found.seen[: rules.produced]] = -1
    for number, (kind, detail) in enumerate(outcomes.items()):
        seqs = np.flatnonzero(outcome == number)
        listed = {"seq": seqs[:MOST_ROWS_WRITTEN]}
        bad = bad_rows(kind, listed, detail=f"{detail}: at no offset of the log")
        found.add(blamed(bad, facts.causes), len(seqs))


def totals(found: Found, rules: Rules, idle: Mapping[str, list[int]]) -> dict[str, Any]:
    """Return the content of ``accounting.json``; null is unknown, never zero."""
    facts, fence, counts = rules.facts, rules.fence, found.counts
    by_class, by_pod = found.by(1), found.by(1, "processed")
    pods = sorted(found.by(1, "own"))
    processed, in_log = by_pod.total(), sum(messages for messages, _ in found.log.values())
    partition_counts = {str(p): found.log.get(p, (0, 0))[0] for p in sorted(fence.events)}
    # The events topic has neither transactions nor compaction: each absent offset is missing.
    starts = {p: found.log[p][1] if p in found.log else end for p, end in fence.events.items()}
    beside = (classes.DUPLICATED, classes.UNKNOWN_MESSAGE, classes.FAILED)
    foreign_work = counts["processed_foreign",]
    content: dict[str, Any] = {
        "produced_acked": facts.acked,
        "produced_failed": facts.failed,
        "produced_unknown": facts.unknown,
        "planned": facts.planned,
        "in_log": in_log,
        "expired": sum(starts.values()),
        "log_holes": fence.messages - sum(starts.values()) - in_log,
        "processed_records": processed,
        "processed_distinct": processed - foreign_work - sum(by_class[kind] for kind in beside),
        "processed_foreign": foreign_work,
        "duplicated_messages": counts["duplicated_messages",],
        "outside_run": counts["outside_run",],
        **{kind: by_class[kind] for kind in classes.CLASSES},
        **_absent_seqs(by_class[classes.NOT_IN_LOG], facts),
    }
    # What the level of a user's consumer does not know is null, not zero.
    if fence.accounting is not None:
        content |= dict.fromkeys(_OF_REPORTS)
    if not fence.has_work:
        content |= dict.fromkeys(_OF_WORK)
    duplicated: Counter[str] = Counter()
    by_cause: dict[str, Counter[str]] = defaultdict(Counter)
    for (name, *key), count in counts.items():
        if name == "bad":
            kind, cause, pod = map(str, key)
            by_cause[kind][cause] += count
            duplicated[pod] += count if kind == classes.DUPLICATED else 0
    during, after = time_lag(found.tables["lags"])
    return content | {
        classes.FOREIGN_LEDGER: counts[classes.FOREIGN_LEDGER,],
        "strangers": _strangers(found),
        "unknown_ownership": [
            {**hole._asdict(), "partitions": sorted(found.holes[tuple(hole)[:3]])}
            for hole in facts.holdings.holes
            if tuple(hole)[:3] in found.holes
        ],
        "unbounded_pods": [pod for pod in pods if clock_of(pod, facts.clocks) is None],
        "unledgered_bound": _unledgered(found.tables["by_kill"], facts, idle),
        "by_pod": {
            pod: {"processed": count, "duplicated": duplicated[pod]}
            for pod, count in sorted(by_pod.items())
        },
        "by_cause": dict(found.by(2)),
        "by_class_and_cause": {kind: dict(causes) for kind, causes in sorted(by_cause.items())},
        "time_lag_seconds": during,
        "time_lag_seconds_after": after,
        "time_lag_method": TIME_LAG_METHOD,
        "message_seconds": message_seconds(found.tables["costs"]),
        "hottest_partition_share": max(partition_counts.values()) / in_log if in_log else None,
        "partition_counts": partition_counts,
        "repeats_by_batch": dict(sorted(found.by(1, "batch").items(), key=lambda b: int(b[0])))
        or None,
    }


def _absent_seqs(absent: int, facts: RunFacts) -> dict[str, int]:
    """Return the counts of absent seqs: those acknowledged, and those that may not have been.

    If the producer reported which deliveries failed, each is known. Else only their number is: that
    many absent seqs may be failed deliveries, and every further one was certainly acknowledged.
    """
    outcomes = ((facts.failed, facts.failed_seqs), (facts.unknown, facts.unknown_seqs))
    excusable = sum(count or 0 for count, reported in outcomes if reported is None)
    excused = min(absent, excusable)
    return {classes.NOT_IN_LOG: absent - excused, "not_in_log_excused": excused}


def _strangers(found: Found) -> list[dict[str, Any]]:
    """Return the first records of log and ledger that do not belong to the run."""
    bad = found.tables["bad"]
    names = ["partition", "offset", "detail"]
    foreign = bad.filter(pa.array(bad["class"].to_numpy() == classes.FOREIGN)).select(names)
    places = (("events", foreign), ("processed", found.tables["unreadable"].select(names)))
    return [
        {"topic": topic, **row}
        for topic, rows in places
        for row in first_strangers(rows).to_pylist()
    ]


def _unledgered(
    by_kill: pa.Table, facts: RunFacts, idle: Mapping[str, list[int]]
) -> list[dict[str, Any]]:
    """Return the bound of what each killed pod had done and not written."""
    sums = by_kill.group_by(["pod", "kills", "at"])
    by_second = sums.aggregate([("last_at_count", "sum"), ("last_at_max", "max")])
    found = by_second.group_by(["pod", "kills"])
    rows = found.aggregate([("last_at_count_sum", "max"), ("last_at_max_max", "max")]).to_pylist()
    ledgered = [
        Ledgered(row["pod"], row["kills"], row["last_at_count_sum_max"], row["last_at_max_max_max"])
        for row in rows
    ]
    bounds = unledgered_bounds(facts.kills, ledgered, idle, facts.holdings.held)
    return [bound._asdict() for bound in bounds]
