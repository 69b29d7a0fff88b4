"""The sums of an accounting."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.measures.accounting.accounting import BadMessage, accounting_measure
from lagbench.core.measures.accounting.sums import broken_sums
from lagbench.shared_with_spark.message_classes import CLASSES

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


def test_every_message_of_a_whole_accounting_is_in_one_class() -> None:
    """Offsets, seqs, records and processings all add up."""
    assert broken_sums(WHOLE) == []


SUMMED = {"lost", "failed", "foreign", "duplicated", "not_in_log"}


@pytest.mark.parametrize("name", sorted(set(WHOLE) - (set(CLASSES) - SUMMED)))
def test_one_message_too_many_is_seen(name: str) -> None:
    """Whatever count is wrong by one, a sum says so in words."""
    count = WHOLE[name]
    assert count is not None

    texts = broken_sums(WHOLE | {name: count + 1})

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


def test_what_nobody_knows_leaves_its_sum_open() -> None:
    """The producer never finished: what it handed over is not known."""
    assert broken_sums(WHOLE | {"produced_acked": None}) == []


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


def test_what_a_version_records_must_be_there() -> None:
    """A count that was taken out of the file is not zero."""
    assert {"foreign", "zombie", "unbounded_pods"} <= set(accounting_measure({"lost": 0}, []).lacks)


def test_a_list_that_was_cut_does_not_say_what_a_shutdown_did() -> None:
    """Beyond 100,000 bad messages each class lists a share, so the rest's cause is not known."""
    at_shutdown = [BadMessage("lost", 0, "a", None, "sigterm", "a", 5)] * 2

    whole = accounting_measure(counts(), at_shutdown).caused_by_shutdown("lost")
    cut = accounting_measure(counts(lost=3), at_shutdown).caused_by_shutdown("lost")

    assert (whole, cut) == (2, None)
