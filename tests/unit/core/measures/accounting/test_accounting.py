"""Accounting and handover gaps as measures."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from lagbench.core.measures.accounting.accounting import (
    Accounting,
    BadMessage,
    CommitMove,
    MovedKeys,
    accounting_measure,
    bad_message_groups,
    commits_moved_back,
    moved_text,
    never_done,
)
from lagbench.core.measures.accounting.accounting_sums import broken_sums
from lagbench.core.measures.rebalance_episodes import Handover, partition_gaps
from lagbench.shared_with_spark.message_classes import CLASSES


def bad(pod: str | None, partition: int | None = 0, at: int | None = 5) -> BadMessage:
    """Return a duplicate next to a SIGTERM of pod x."""
    return BadMessage("duplicated", partition, pod, None, "sigterm", "x", at)


def test_groups_name_pod_partitions_and_first_instant() -> None:
    """Three by a on two partitions, one by b; the largest first."""
    groups = bad_message_groups([bad("b"), bad("a", 3), bad("a", 1, at=2), bad("a", 1, at=None)])

    assert [(group.pod, group.count) for group in groups] == [("a", 3), ("b", 1)]
    assert groups[0].partitions == (1, 3)
    assert groups[0].first_at == 2


def test_counts_are_taken_over_and_what_nobody_counted_is_missing() -> None:
    """A count that the job did not write is None, not zero; so is all without an accounting."""
    counts = {"lost": 0, "in_log": 9, "by_pod": {"b": {"processed": 4}, "a": {"processed": 5}}}

    measure = accounting_measure(counts, [])
    nothing = accounting_measure(None, [])

    assert (measure.lost, measure.in_log, measure.zombie) == (0, 9, None)
    assert [(work.pod, work.processed) for work in measure.by_pod] == [("a", 5), ("b", 4)]
    assert {"foreign", "zombie", "unbounded_pods"} <= set(measure.lacks)
    assert (nothing.lost, nothing.duplicated) == (None, None)


@pytest.mark.parametrize(
    ("counts", "lost"),
    [
        ({"produced_acked": 9, "not_in_log": 4, "expired": 0}, 4),
        ({"produced_acked": 9, "not_in_log": 4, "expired": 3}, 1),
        ({"produced_acked": 9, "not_in_log": 4, "expired": 10}, 0),
        ({"produced_acked": None, "not_in_log": 4, "expired": 0}, None),
        ({"produced_acked": 9, "not_in_log": 4}, None),
    ],
)
def test_what_the_log_lacks_was_lost_unless_it_expired(
    counts: dict[str, int | None], lost: int | None
) -> None:
    """Of four that are at no offset three may have expired; a guess proves no loss."""
    measure = accounting_measure({"lost": 2, **counts}, [])

    assert measure.lost_in_broker == lost
    assert measure.lost_in_all == 2 + (lost or 0)


def test_gap_histogram() -> None:
    """Gaps of 0.2, 0.7 and 40 s; one below zero (two owners at once) counts as 0."""
    gaps = [Handover(p, 0, gap) for p, gap in enumerate((0.2, 0.7, 40.0, -1.0))]

    found = partition_gaps(gaps)

    assert found.handovers == 4
    assert found.max_seconds == 40
    assert found.max_partition == 2
    assert found.p50_seconds == pytest.approx(0.45)
    counted = {row.up_to_seconds: row.count for row in found.histogram if row.count}
    assert counted == {0.1: 1, 0.25: 1, 1.0: 1, None: 1}
    assert partition_gaps([]).max_seconds is None


def test_failed_messages_are_compared_with_the_poisoned_ones() -> None:
    """Of three messages that were given up two are poisoned; without poison none is."""
    rows = [replace(bad("a"), message_class="failed", seq=seq) for seq in (7, 8, 9)]

    found = accounting_measure({"failed": 3}, rows, poisoned_seqs={7, 9, 11})
    without = accounting_measure({"failed": 3}, rows)

    assert (found.failed, found.failed_by_plan, found.poisoned) == (3, 2, 3)
    assert found.failed_unplanned == 1
    assert (without.failed_unplanned, without.poisoned) == (3, None)
    # The table has a share of very many bad messages: they cannot be compared.
    assert accounting_measure({"failed": 3}, [], poisoned_seqs={7}).failed_unplanned is None


WHOLE: dict[str, int | None] = {
    **dict.fromkeys(CLASSES, 0),
    "below_fence": 119,
    "expired": 0,
    "log_holes": 2,
    "in_log": 117,
    "produced_acked": 112,
    "produced_failed": 4,
    "produced_unknown": 1,
    "not_in_log": 3,
    "not_in_log_failed": 2,
    "not_in_log_unknown": 1,
    "not_in_log_excused": 0,
    "produced_twice": 1,
    "foreign": 5,
    "processed_distinct": 100,
    "lost": 4,
    "not_yet_consumed": 6,
    "failed": 2,
    "processed_records": 118,
    "duplicated": 10,
    "unknown_message": 2,
    "processed_foreign": 4,
    "processed_by_pods": 118,
    "duplicated_by_pods": 10,
    "in_partitions": 117,
}
SUMMED = {"lost", "failed", "foreign", "duplicated", "not_in_log"}


@pytest.mark.parametrize("name", sorted(set(WHOLE) - (set(CLASSES) - SUMMED)))
def test_one_message_too_many_is_seen(name: str) -> None:
    """Whatever count is wrong by one, a sum says so in words."""
    count = WHOLE[name]
    assert count is not None

    texts = broken_sums(WHOLE | {name: count + 1})

    assert broken_sums(WHOLE) == []
    assert texts
    assert all(f"{count + 1:,}" in text for text in texts)


def test_what_an_older_run_never_recorded_is_left_out_of_the_sums() -> None:
    """Without strangers and identities the rest still has to add up."""
    older = {
        name: count
        for name, count in WHOLE.items()
        if name not in {"foreign", "processed_foreign", "not_in_log_failed", "not_in_log_unknown"}
    }
    older |= {"in_log": 112, "below_fence": 114, "in_partitions": 112}
    older |= {"processed_records": 114, "processed_by_pods": 114, "not_in_log_excused": 3}

    assert broken_sums(older) == []
    assert broken_sums(older | {"in_log": 160})
    assert broken_sums(WHOLE | {"produced_acked": None}) == []  # the producer never finished


def counts(**changes: Any) -> dict[str, Any]:
    """Return an accounting.json with two lost messages, changed."""
    return {"lost": 2, "by_class_and_cause": {"lost": {"commit": 2}}} | changes


def lost(count: int) -> list[BadMessage]:
    """Return as many rows of the table."""
    return [BadMessage("lost", 0, "a", None, "commit", "a", 5)] * count


@pytest.mark.parametrize(
    ("content", "rows", "broken"),
    [
        (counts(), 2, 0),
        (counts(lost=0), 2, 1),
        (counts(lost=0, by_class_and_cause={}), 2, 1),
        (counts(), 1, 1),
        (counts(lost=3), 2, 1),
    ],
)
def test_a_class_has_as_many_rows_and_causes_as_it_counts(
    content: dict[str, Any], rows: int, broken: int
) -> None:
    """A count that was taken back is contradicted by the table of bad messages."""
    assert len(accounting_measure(content, lost(rows)).broken_classes) == broken


def test_a_list_that_was_cut_does_not_say_what_a_shutdown_did() -> None:
    """Beyond 100,000 bad messages each class lists a share, so the rest's cause is not known."""
    at_shutdown = [BadMessage("lost", 0, "a", None, "sigterm", "a", 5)] * 2

    whole = accounting_measure(counts(), at_shutdown).lost_at_shutdown
    cut = accounting_measure(counts(lost=3), at_shutdown).lost_at_shutdown

    assert (whole, cut) == (2, None)


def test_an_offset_that_falls_was_set_back() -> None:
    """Partition 1 falls from 9 to 4; partition 0 stands still, fails to be read and rises."""
    readings = [(1, 0, 5), (1, 1, 9), (2, 0, 5), (2, 1, 4), (3, 0, None), (4, 0, 7), (3, 1, 12)]
    move = CommitMove(at=2, partition=1, from_offset=9, to_offset=4)

    assert commits_moved_back(readings, None) == (move,)
    fenced = commits_moved_back([(1, 0, 5), (1, 1, None)], (9, {0: 3, 1: 2}))
    assert fenced == (CommitMove(at=9, partition=0, from_offset=5, to_offset=3),)


NONE = {"keys": 1200, "messages": 9000, "overtaken_keys": 0, "overtaken": 0}


@pytest.mark.parametrize(
    ("counts", "numbers"),
    [
        ({}, ["1,200", "9,000"]),
        (
            {"overtaken": 40, "overtaken_keys": 3, "most_seconds": 12.34},
            ["1,200", "9,000", "40", "3", "12.3"],
        ),
        ({"overtaken_in_doubt": 2}, ["1,200", "9,000", "2"]),
    ],
)
def test_it_says_how_many_keys_moved_and_which_order_was_broken(
    counts: dict[str, float], numbers: list[str]
) -> None:
    """Keys, their messages, those overtaken, by how much."""
    moved = MovedKeys.model_validate({**NONE, "overtaken_in_doubt": 0, **counts})

    assert re.findall(r"\d[\d,.]*", moved_text(Accounting(moved=moved))) == numbers
    without = accounting_measure({"moved_keys": None}, [])
    assert (without.moved, moved_text(without)) == (None, "")  # which is not zero


PLANNED = 100
NOTHING = {"lost": 0, "not_yet_consumed": 0, "not_in_log": 0, "lost_in_broker": 0}


def rows(message_class: str, *seqs: int | None) -> list[BadMessage]:
    """Return bad messages of a class."""
    return [BadMessage(message_class, 0, None, None, "none", None, None, seq) for seq in seqs]


@pytest.mark.parametrize(
    ("counts", "listed", "bounds"),
    [
        ({}, [], (0, 0)),
        ({"lost": 2}, rows("lost", 1, 99), (2, 2)),
        ({"lost": 2}, rows("lost", 99, 100), (1, 1)),  # one of the tail
        ({"lost": 5}, rows("lost", 1), (1, 5)),  # not all are listed
        ({"lost": 2}, rows("lost", 1, None), (1, 2)),
        ({"not_yet_consumed": 3}, rows("not_yet_consumed", 1, 2, 200), (0, 2)),
        ({"failed": 3}, rows("failed", 1, 2, 3), (0, 0)),  # dead letters: done
        ({"not_in_log": 2, "lost_in_broker": 2}, rows("not_in_log", 1, 2), (2, 2)),
        ({"not_in_log": 2, "lost_in_broker": 0}, rows("not_in_log", 1, 2), (0, 2)),  # expired
        ({"lost": 2, "foreign_ledger_records": 1}, rows("lost", 1, 2), (1, 2)),
        ({"lost": 900}, [], (0, 100)),
    ],
)
def test_messages_without_a_processing_are_counted(
    counts: dict[str, Any], listed: list[BadMessage], bounds: tuple[int, int]
) -> None:
    """The lost ones of the planned window certainly, what waited or is unlisted perhaps."""
    found = never_done(Accounting(**NOTHING | counts), listed, PLANNED)

    assert found is not None
    assert (found.at_least, found.at_most) == bounds
    assert never_done(Accounting(), [], PLANNED) is None  # nobody counted
