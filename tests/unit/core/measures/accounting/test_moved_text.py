"""The sentence on keys that moved partition."""

from __future__ import annotations

import re

import pytest

from lagbench.core.measures.accounting.accounting import (
    Accounting,
    MovedKeys,
    accounting_measure,
    moved_text,
)

NONE = {"keys": 1200, "messages": 9000, "overtaken_keys": 0, "overtaken": 0}


def test_without_a_growth_nothing_is_said_and_nothing_is_measured() -> None:
    """No growth is not zero moved keys."""
    found = accounting_measure({"moved_keys": None}, [])

    assert (found.moved, moved_text(found)) == (None, "")
    assert accounting_measure({}, []).moved is None


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
