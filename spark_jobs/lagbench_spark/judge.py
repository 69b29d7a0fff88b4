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
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lagbench.core.ownership import (
    CauseFinder,
    Epoch,
    clock_of,
    most_error_ns,
    rivals_of,
    spans_of,
    unknown_work,
)
from lagbench.shared_with_spark import message_classes as classes
from lagbench.shared_with_spark.spark_member import SPARK_MEMBER
from lagbench_spark import schemas
from lagbench_spark.messages import (
    Ints,
    Mask,
    Rows,
    Rules,
    Work,
    picked,
    read_events,
    read_work,
)

BIN_NS, SECOND_NS = 100_000_000, 1_000_000_000
MOST_ROWS_WRITTEN = 100_000
NAMED_STRANGERS = 5
_MOST_RANKS = 10_000
_SAMPLED_EVERY = 101
_MOST_LAG_NS = 9e18  # of a garbled planned instant: no lag
_FOREVER = np.iinfo(np.int64).max
_GIVEN = ("class", "partition", "offset", "seq", "entity_id", "pod", "other_pod", "at", "detail")

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
            _of_pods(
                classes.UNKNOWN_MESSAGE,
                part,
                "started_at",
                detail="the log holds another message at this offset, or none",
            )
            for part in (own.only(~is_known), done.only(~is_below))
        ),
        _of_pods(
            classes.DUPLICATED,
            repeats,
            "started_at",
            other_pod=first_pod,
            detail=[f"already done by {pod}" for pod in first_pod],
        ),
    ]
    failed = first.only(first.rows["attempts"] > 0)
    given_up = [f"given up after {attempts} attempts" for attempts in failed.rows["attempts"]]
    bad.append(_of_pods(classes.FAILED, failed, "done_at", detail=given_up))
    bad += _reordered(rules, first)
    owners = _Owners(rules, partition, own)
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


def fair_share(bad: pa.Table) -> pa.Table:
    """Return at most 100,000 rows, a fair share of each class."""
    if bad.num_rows <= MOST_ROWS_WRITTEN:
        return bad
    kinds = bad["class"].to_numpy()
    share = MOST_ROWS_WRITTEN // len(np.unique(kinds))
    chosen = [np.flatnonzero(kinds == kind)[:share] for kind in np.unique(kinds)]
    return bad.take(pa.array(np.concatenate(chosen)))


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


def _reordered(rules: Rules, first: Work) -> Iterator[pa.Table]:
    """Find messages that were begun after a later one of the same owner, or of the same key.

    Two messages begun in the same nanosecond have no order. Starts of two pods are compared within
    the bound of their clocks: inside it the order is in doubt, as it is if one is not bounded.
    """
    rows, clocks = first.rows, rules.facts.clocks
    offset, started_at = rows["offset"], rows["started_at"]
    overtaken_by = np.full(len(first), -1)
    by_owner = np.lexsort((offset, started_at, rows["pod"]))
    furthest = _most_so_far(rows["pod"][by_owner], offset[by_owner])
    is_late = np.zeros(len(first), bool)
    is_late[by_owner] = furthest > offset[by_owner]
    overtaken_by[is_late] = rows["pod"][is_late]
    is_certain = is_late.copy()
    slack_ns = most_error_ns(first.pods[np.unique(rows["pod"])], clocks)
    is_bounded = np.array([clock_of(pod, clocks) is not None for pod in first.pods], bool)
    by_key = np.lexsort((offset, rows["entity_id"]))
    key, pod = rows["entity_id"][by_key], rows["pod"][by_key]
    for other in np.unique(pod):
        theirs = np.flatnonzero(pod == other)
        # Of each of their messages the earliest start of it and all later ones of its key.
        earliest = -_most_so_far(key[theirs][::-1], -started_at[by_key[theirs]][::-1])[::-1]
        place = np.searchsorted(theirs, np.arange(len(by_key)), side="right")
        has_later = place < len(theirs)
        place = np.minimum(place, len(theirs) - 1)
        has_later &= (key[theirs[place]] == key) & (pod != other)
        late_ns = started_at[by_key] - earliest[place]
        is_sure = (late_ns > slack_ns) & is_bounded[pod] & is_bounded[other]
        for chosen, certain in ((late_ns > -slack_ns, False), (is_sure, True)):
            late = by_key[has_later & chosen]
            late = late[~is_certain[late]]
            is_late[late], is_certain[late], overtaken_by[late] = True, certain, other
    for kind, chosen in (
        (classes.REORDERED, is_late & is_certain),
        (classes.REORDERED_IN_DOUBT, is_late & ~is_certain),
    ):
        others = first.pods[overtaken_by[chosen]]
        yield _of_pods(
            kind,
            first.only(chosen),
            "started_at",
            other_pod=others,
            detail=[f"begun after a later message, by {pod}" for pod in others],
        )


def _most_so_far(groups: Ints, values: Ints) -> Ints:
    """Return the largest value so far in each group; the rows of a group are neighbours."""
    if not len(values):
        return values
    ranked, rank = np.unique(values, return_inverse=True)
    floor = np.cumsum(np.diff(groups, prepend=groups[0]) != 0) * len(ranked)
    return ranked[np.maximum.accumulate(floor + rank) - floor]


class _Owners:
    """Who owned the partition when each of its processings was begun.

    An epoch is the span of a reported assignment, else the member's work outside all spans, from
    its first.
    """

    def __init__(self, rules: Rules, partition: int | None, own: Work) -> None:
        """Date the processings."""
        facts, rows = rules.facts, own.rows
        held = [held for held in facts.holdings.held if held.partition == partition]
        self._holdings = replace(facts.holdings, held=held)
        places = [] if partition is None else [partition]
        every = spans_of(self._holdings, places)
        self._spans = [span for span in every if span.partition == partition]
        self._clocks, self._partition, self._own = facts.clocks, partition, own
        # Consumers of a user's own do not report what they own.
        self._are_reported = rules.fence.accounting is None
        self.epoch = np.zeros(len(own), np.int64)
        is_reported, is_known = np.zeros(len(own), bool), np.ones(len(own), bool)
        for code in np.unique(rows["pod"]):
            mine = np.flatnonzero(rows["pod"] == code)
            spans = [span for span in self._spans if span.pod == own.pods[code]]
            ends = [_FOREVER if span.until_at is None else span.until_at for span in spans]
            columns = [span.from_at for span in spans], ends, [span.is_known for span in spans]
            from_at, until_at, known = (np.array([0, *column]) for column in columns)
            begun = rows["started_at"][mine]
            place = np.searchsorted(from_at[1:], begun, side="right")
            place[begun >= until_at[place]] = 0
            self.epoch[mine] = from_at[place]
            is_reported[mine] = place > 0
            is_known[mine] = (place == 0) | (known[place] > 0)
            outside = mine[place == 0]
            for member in np.unique(rows["member"][outside]):
                its = outside[rows["member"][outside] == member]
                self.epoch[its] = rows["started_at"][its].min()
        self._is_known = is_known
        table = pa.table(
            {
                "pod": rows["pod"],
                "epoch": self.epoch,
                "is_reported": is_reported,
                "is_known": is_known,
                "began_at": rows["started_at"],
            }
        )
        found = table.group_by(["pod", "epoch", "is_reported", "is_known"])
        self._epochs = [
            Epoch(
                partition or 0,
                own.pods[row["pod"]],
                row["epoch"],
                row["began_at_min"],
                row["began_at_count"],
                row["is_reported"],
                row["is_known"],
            )
            for row in found.aggregate([("began_at", "min"), ("began_at", "count")]).to_pylist()
        ]

    def unknown(self) -> list[tuple[Any, ...]]:
        """Return pod, from_at and until_at of holes in its records within which a pod worked."""
        if not self._are_reported:
            return []
        return [tuple(hole)[:3] for hole in unknown_work(self._epochs, self._holdings.holes)]

    def zombies(self) -> Iterator[pa.Table]:
        """Find the work of a former owner after the next owner had begun.

        Stamps of two pods are compared within the bound of their clocks: inside it the order is in
        doubt. Without a bound stamps are used unchanged, and nothing is certain.
        """
        rivals = rivals_of(self._epochs, self._spans, self._holdings, self._clocks)
        rows = self._own.rows
        code_of = {pod: code for code, pod in enumerate(self._own.pods)}
        for rival in rivals if self._are_reported else ():
            if rival.pod not in code_of:
                continue
            late_ns = rows["done_at"] - rival.next_began_at
            error_ns = rival.error_ns or 0
            is_its = (rows["pod"] == code_of[rival.pod]) & (self.epoch == rival.epoch)
            is_late = is_its & self._is_known & (late_ns > -error_ns)
            is_certain = late_ns > (_FOREVER if rival.error_ns is None else error_ns)
            for kind, chosen in (
                (classes.ZOMBIE, is_late & is_certain),
                (classes.ZOMBIE_IN_DOUBT, is_late & ~is_certain),
            ):
                milliseconds = [f"{late:.3f}" for late in late_ns[chosen] / 1e6]
                yield _of_pods(
                    kind,
                    self._own.only(chosen),
                    "done_at",
                    other_pod=rival.next_pod,
                    detail=[
                        f"done {late} ms after {rival.next_pod} began" for late in milliseconds
                    ],
                )


def _of_pods(kind: str, work: Work, at: str, **given: Any) -> pa.Table:
    """Return processings in the form of bad messages; ``at`` names the column of its instant."""
    message = {name: work.rows[name] for name in ("partition", "offset", "seq", "entity_id")}
    return bad_rows(kind, message, pod=work.pod, at=work.rows[at], **given)


def bad_rows(kind: str, message: Mapping[str, Any], **given: Any) -> pa.Table:
    """Return rows with the columns in ``_GIVEN``: arrays, values that all have, or null."""
    columns = {**message, **given, "class": kind}
    size = len(next(value for value in columns.values() if isinstance(value, np.ndarray)))
    arrays = []
    for name in _GIVEN:
        value, of_type = columns.get(name), schemas.BAD_MESSAGES.field(name).type
        if value is None or isinstance(value, str | int):
            arrays.append(pa.repeat(pa.scalar(value, of_type), size))
        else:
            arrays.append(pa.array(value, of_type))
    return pa.table(arrays, names=_GIVEN)


def blamed(rows: pa.Table, causes: CauseFinder) -> pa.Table:
    """Add the cause of each row, group by group: there are many rows and few pods."""
    columns = rows.to_pydict()
    groups: dict[tuple[Any, ...], list[int]] = {}
    keys = zip(*(columns[name] for name in ("class", "partition", "pod", "other_pod")), strict=True)
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    columns |= {name: [None] * rows.num_rows for name in ("cause", "cause_at", "cause_pod")}
    for (kind, partition, *pods), chosen in groups.items():
        places = [(columns["offset"][row], columns["at"][row]) for row in chosen]
        for row, blame in zip(
            chosen, causes.blame(kind, partition, tuple(pods), places), strict=True
        ):
            for name, value in blame._asdict().items():
                columns[name][row] = value
    return pa.table(
        {field.name: columns[field.name] for field in schemas.BAD_MESSAGES}, schemas.BAD_MESSAGES
    )


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
    is_after = planned_at >= (_FOREVER if rules.sample_end is None else rules.sample_end)
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
