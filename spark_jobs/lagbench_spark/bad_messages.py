"""The classes of bad messages that need an order or an owner, and the form of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lagbench.core.ownership.causes import CauseFinder
from lagbench.core.ownership.holdings import (
    Epoch,
    clock_of,
    most_error_ns,
    rivals_of,
    spans_of,
    unknown_work,
)
from lagbench.shared_with_spark import message_classes as classes
from lagbench_spark import schemas
from lagbench_spark.messages import Ints, Rules, Work

MOST_ROWS_WRITTEN = 100_000
FOREVER = np.iinfo(np.int64).max
_GIVEN = ("class", "partition", "offset", "seq", "entity_id", "pod", "other_pod", "at", "detail")


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


def of_pods(kind: str, work: Work, at: str, **given: Any) -> pa.Table:
    """Return processings in the form of bad messages; ``at`` names the column of its instant."""
    message = {name: work.rows[name] for name in ("partition", "offset", "seq", "entity_id")}
    return bad_rows(kind, message, pod=work.pod, at=work.rows[at], **given)


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


def fair_share(bad: pa.Table) -> pa.Table:
    """Return at most 100,000 rows, a fair share of each class."""
    if bad.num_rows <= MOST_ROWS_WRITTEN:
        return bad
    kinds = bad["class"].to_numpy()
    share = MOST_ROWS_WRITTEN // len(np.unique(kinds))
    chosen = [np.flatnonzero(kinds == kind)[:share] for kind in np.unique(kinds)]
    return bad.take(pa.array(np.concatenate(chosen)))


def reordered(rules: Rules, first: Work) -> Iterator[pa.Table]:
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
        yield of_pods(
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


class Owners:
    """The owners of a partition at the begin of each processing.

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
            ends = [FOREVER if span.until_at is None else span.until_at for span in spans]
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
            is_certain = late_ns > (FOREVER if rival.error_ns is None else error_ns)
            for kind, chosen in (
                (classes.ZOMBIE, is_late & is_certain),
                (classes.ZOMBIE_IN_DOUBT, is_late & ~is_certain),
            ):
                if not chosen.any():
                    continue
                milliseconds = [f"{late:.3f}" for late in late_ns[chosen] / 1e6]
                yield of_pods(
                    kind,
                    self._own.only(chosen),
                    "done_at",
                    other_pod=rival.next_pod,
                    detail=[
                        f"done {late} ms after {rival.next_pod} began" for late in milliseconds
                    ],
                )
