"""How many messages of the planned window were never done."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.measures.accounting.accounting import Accounting, BadMessage, never_done

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


def test_without_an_accounting_nobody_counted() -> None:
    """None, not zero."""
    assert never_done(Accounting(), [], PLANNED) is None
