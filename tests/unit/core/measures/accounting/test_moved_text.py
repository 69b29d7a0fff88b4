"""The sentence on keys that moved partition."""

from __future__ import annotations

import pytest

from lagbench.core.measures.accounting.accounting import (
    Accounting,
    MovedKeys,
    accounting_measure,
)
from lagbench.core.measures.accounting.moved_text import moved_text

NONE = {"keys": 1200, "messages": 9000, "overtaken_keys": 0, "overtaken": 0}


def test_without_a_growth_nothing_is_said_and_nothing_is_measured() -> None:
    """No growth is not zero moved keys."""
    found = accounting_measure({"moved_keys": None}, [])

    assert (found.moved, moved_text(found)) == (None, "")
    assert accounting_measure({}, []).moved is None


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({}, "1,200 keys (9,000 messages) moved partition, and each kept its order"),
        (
            {"overtaken": 40, "overtaken_keys": 3, "most_seconds": 12.34},
            "40 messages of 3 of them were begun after a later one of their key",
        ),
        ({"overtaken": 1, "most_seconds": 12.34}, "in another partition, by up to 12.3 s"),
        ({"overtaken_in_doubt": 2}, "2 are in doubt between two clocks"),
    ],
)
def test_it_says_how_many_keys_moved_and_which_order_was_broken(
    counts: dict[str, float], words: str
) -> None:
    """Keys, their messages, those overtaken, by how much."""
    moved = MovedKeys.model_validate({**NONE, "overtaken_in_doubt": 0, **counts})

    assert words in moved_text(Accounting(moved=moved))
