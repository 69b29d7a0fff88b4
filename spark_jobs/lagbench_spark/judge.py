"""Judge every message of one partition by its identity.

The messages of a partition have an order, and one owner at a time: all that can be wrong with them
shows in the partition's events and processings. This runs in the Python of Spark's executors, which
has numpy and pyarrow alone.
"""

from __future__ import annotations

import pickle
import re
import zlib
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from lagbench.shared_with_spark import message_classes as classes
from lagbench.shared_with_spark.spark_job import SPARK_MEMBER
from lagbench_spark import schemas
from lagbench_spark.bad_messages import (
    FOREVER,
    Owners,
    bad_rows,
    blamed,
    fair_share,
    of_pods,
    reordered,
)
from lagbench_spark.messages import Ints, Mask, Rows, Rules, Work, picked, read_events, read_work

BIN_NS, SECOND_NS = 100_000_000, 1_000_000_000
NAMED_STRANGERS = 5
_MOST_RANKS = 10_000
_SAMPLED_EVERY = 101
_MOST_LAG_NS = 9e18  # of a garbled planned instant: no lag

Counts = Counter[tuple[str | None, ...]]


def judge(rules: Rules, partition: int | None, events: pa.Table, work: pa.Table) -> bytes:
    """Return what was found in the events and processings of one partition, packed for ``Found``.

    :param partition: None: the processings of no partition that the topic has.
    """
    log, strangers = read_events(rules, events)
    done = read_work(rules, work)
    end = 0 if partition is None else rules.fence.events[partition]
    is_below = (done.rows["offset"] >= 0) & (done.rows["offset"] < end)
    is_on_stranger = is_below & np.isin(done.rows["offset"], strangers["offset"])
    own = done.only(is_below & ~is_on_stranger)
    is_known, event = places_in_log(log, own.rows)
    known = own.only(is_known)
    turns, is_first, before = turns_of(known.rows)
    first, repeats = known.only(turns[is_first]), known.only(turns[~is_first])
    first_pod = known.pod[before]
    is_done = np.zeros(len(log["offset"]), bool)
    is_done[event[is_known]] = True
    absent = picked(log, ~is_done & rules.fence.has_work)
    committed = None if partition is None else rules.fence.committed.get(partition)
    is_lost = absent["offset"] < (-1 if committed is None else committed)
    bad = [
        bad_rows(classes.FOREIGN, {"partition": partition, **strangers}),
        bad_rows(
            classes.LOST,
            {"partition": partition, **picked(absent, is_lost)},
            detail="below the committed offset, never processed",
        ),
        bad_rows(
            classes.NOT_YET_CONSUMED,
            {"partition": partition, **picked(absent, ~is_lost)},
            detail="at or above the committed offset, not processed yet",
        ),
        *(
            of_pods(
                classes.UNKNOWN_MESSAGE,
                part,
                "started_at",
                detail="the log holds another message at this offset, or none",
            )
            for part in (own.only(~is_known), done.only(~is_below))
        ),
        of_pods(
            classes.DUPLICATED,
            repeats,
            "started_at",
            other_pod=first_pod,
            detail=[f"already done by {pod}" for pod in first_pod],
        ),
    ]
    failed = first.only(first.rows["attempts"] > 0)
    given_up = [f"given up after {attempts} attempts" for attempts in failed.rows["attempts"]]
    bad.append(of_pods(classes.FAILED, failed, "done_at", detail=given_up))
    bad += reordered(rules, first)
    owners = Owners(rules, partition, own)
    bad += owners.zombies()
    every = blamed(pa.concat_tables(bad), rules.facts.causes)
    counts: Counts = Counter(
        {
            ("events",): len(log["offset"]),
            ("outside_run",): done.outside,
            ("processed_foreign",): int(is_on_stranger.sum()),
            ("duplicated_messages",): len(np.unique(repeats.rows["offset"])),
            (classes.FOREIGN_LEDGER,): work.num_rows - len(done),
        }
    )
    for name, part in (("processed", done), ("own", own)):
        for pod, count in zip(*np.unique(part.rows["pod"], return_counts=True), strict=True):
            counts[name, part.pods[pod]] += int(count)
    for member, count in zip(*np.unique(repeats.rows["member"], return_counts=True), strict=True):
        if batch := re.match(SPARK_MEMBER, repeats.members[member]):
            counts["batch", batch[1]] += int(count)
    for row in every.group_by(["class", "cause", "pod"]).aggregate([([], "count_all")]).to_pylist():
        counts["bad", row["class"], row["cause"], row["pod"]] = row["count_all"]
    tables = {
        "bad": fair_share(every),
        "offered": _binned(partition, log["planned_at"]),
        "done": _binned(partition, own.rows["done_at"], pod=pa.array(own.pod, pa.string())),
        "again": _binned(partition, repeats.rows["done_at"]),
        "lost": _binned(partition, absent["planned_at"][is_lost]),
        "by_kill": _by_kill(rules, own),
        "costs": _costs(own),
        "lags": _lags(rules, own),
        "gaps": _gaps(partition, own, owners.epoch),
        "unreadable": _unreadable(work),
    }
    offsets = np.concatenate([log["offset"], strangers["offset"]])
    seqs, times = np.unique(log["seq"][log["seq"] < rules.seqs], return_counts=True)
    seen = np.zeros(rules.seqs, bool)
    seen[seqs] = True
    found = {
        "partition": partition,
        "counts": counts,
        "tables": tables,
        "log": {partition: (len(offsets), int(offsets.min()))} if len(offsets) else {},
        "holes": owners.unknown(),
        "seen": np.packbits(seen),
        "twice": seqs[times > 1],
    }
    return zlib.compress(pickle.dumps(found), 1)


def places_in_log(log: Rows, rows: Rows) -> tuple[Mask, Ints]:
    """Return which processings are of a message in the log, and the place of that message."""
    if not len(log["offset"]):
        return np.zeros(len(rows["offset"]), bool), np.zeros(len(rows["offset"]), int)
    place = np.minimum(np.searchsorted(log["offset"], rows["offset"]), len(log["offset"]) - 1)
    is_known = np.ones(len(place), bool)
    for name in ("offset", "seq", "entity_id"):
        is_known &= log[name][place] == rows[name]
    return is_known, place


def turns_of(rows: Rows) -> tuple[Ints, Mask, Ints]:
    """Return the processings by message and end, which come first, and of each other its first.

    The processing that was done first counts.
    """
    names = ("ledger_offset", "ledger_partition", "started_at", "done_at", "offset")
    order = np.lexsort([rows[name] for name in names])
    is_first = np.diff(rows["offset"][order], prepend=-1) != 0
    first = order[is_first][np.cumsum(is_first) - 1]
    return order, is_first, first[~is_first]


def _binned(partition: int | None, at: Ints, **keys: Any) -> pa.Table:
    """Count by partition, bin, and what else is given."""
    bins = pa.table({"at": at - at % BIN_NS, **keys})
    counted = bins.group_by(bins.column_names).aggregate([([], "count_all")])
    place = pa.repeat(pa.scalar(partition, pa.int32()), counted.num_rows)
    return counted.rename_columns([*bins.column_names, "count"]).append_column("partition", place)


def _by_kill(rules: Rules, own: Work) -> pa.Table:
    """Return by pod, kills before it, and second: count and last end of the processings."""
    done_at, kills = own.rows["done_at"], np.zeros(len(own), np.int64)
    for pod, instants in rules.facts.kills.items():
        is_its = own.pod == pod
        kills[is_its] = np.searchsorted(np.array(instants), done_at[is_its], side="left")
    columns = {
        "pod": pa.array(own.pod, pa.string()),
        "kills": kills,
        "at": done_at - done_at % SECOND_NS,
    }
    found = pa.table({**columns, "last_at": done_at}).group_by([*columns])
    return found.aggregate([("last_at", "count"), ("last_at", "max")])


def _costs(own: Work) -> pa.Table:
    """Return a sample of the times from started to done."""
    is_sampled = own.rows["offset"] % _SAMPLED_EVERY == 0
    return pa.table({"cost": (own.rows["done_at"] - own.rows["started_at"])[is_sampled]})


def _lags(rules: Rules, own: Work) -> pa.Table:
    """Return second, is_after (the tail), lag and weight: of each group order statistics.

    They are 10,000, or all its values: a rank among the united groups is off by at most one in
    10,000.
    """
    done_at, planned_at = own.rows["done_at"], own.rows["planned_at"]
    is_planned = own.rows["is_planned"] & (
        np.abs(done_at.astype(float) - planned_at) < _MOST_LAG_NS
    )
    done_at, planned_at = done_at[is_planned], planned_at[is_planned]
    at, lag = done_at - done_at % SECOND_NS, done_at - planned_at
    is_after = planned_at >= (FOREVER if rules.sample_end is None else rules.sample_end)
    order = np.lexsort((lag, is_after, at))
    at, is_after, lag = at[order], is_after[order], lag[order]
    weight, chosen = np.ones(len(lag)), np.ones(len(lag), bool)
    is_new = (np.diff(at, prepend=-1) != 0) | (np.diff(is_after, prepend=False) != 0)
    firsts = np.flatnonzero(is_new)
    sizes = np.diff([*firsts, len(lag)])
    for first, size in zip(firsts[sizes > _MOST_RANKS], sizes[sizes > _MOST_RANKS], strict=True):
        chosen[first : first + size] = False
        places = first - 1 + np.arange(1, _MOST_RANKS + 1) * size // _MOST_RANKS
        chosen[places], weight[places] = True, size / _MOST_RANKS
    columns = {"at": at, "is_after": is_after, "lag": lag, "weight": weight}
    return pa.table({name: values[chosen] for name, values in columns.items()})


def _gaps(partition: int | None, own: Work, epoch: Ints) -> pa.Table:
    """Return rows of ``schemas.PARTITION_GAPS``: the handovers between pods.

    A run of work is what one member began in the order of neighbouring offsets. Handovers are
    between runs, in the order of their begins: pods that work at once change only then.
    """
    rows = own.rows
    order = np.lexsort((rows["started_at"], rows["offset"], rows["member"], rows["pod"]))
    names = ("pod", "member", "offset", "started_at", "done_at")
    row = {"epoch": epoch[order], **{name: rows[name][order] for name in names}}
    follows = (np.diff(row["offset"]) == 1) & (np.diff(row["started_at"]) >= 0)
    for owner in ("pod", "member", "epoch"):
        follows &= np.diff(row[owner]) == 0
    firsts = np.flatnonzero(np.concatenate((np.ones(min(len(own), 1), bool), ~follows)))
    if not len(firsts):
        return schemas.PARTITION_GAPS.empty_table()
    begun = np.lexsort((row["offset"][firsts], row["started_at"][firsts]))
    pod = row["pod"][firsts][begun]
    first_done = np.minimum.reduceat(row["done_at"], firsts)[begun]
    last_done = np.maximum.reduceat(row["done_at"], firsts)[begun]
    stays = np.flatnonzero(np.diff(pod, prepend=-1))
    first_done, last_done = (
        np.minimum.reduceat(first_done, stays),
        np.maximum.reduceat(last_done, stays),
    )
    pods = own.pods[pod[stays]]
    columns = {
        "partition": np.full(len(stays) - 1, partition, np.int32),
        "from_pod": pods[:-1],
        "to_pod": pods[1:],
        "last_done_at": last_done[:-1],
        "next_done_at": first_done[1:],
        "gap_seconds": (first_done[1:] - last_done[:-1]) / SECOND_NS,
    }
    return pa.table(columns, schemas.PARTITION_GAPS)


def _unreadable(work: pa.Table) -> pa.Table:
    """Return partition, offset and detail of the first records of the ledger that are none."""
    rows = work.filter(work["foreign"].is_valid())
    names = {"ledger_partition": "partition", "ledger_offset": "offset", "foreign": "detail"}
    return first_strangers(rows.select([*names]).rename_columns([*names.values()]))


def first_strangers(places: pa.Table) -> pa.Table:
    """Return the first records by their place."""
    order = [("partition", "ascending"), ("offset", "ascending")]
    return places.sort_by(order).slice(0, NAMED_STRANGERS)
