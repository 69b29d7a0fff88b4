"""Accounting: every message in exactly one class."""

from lagbench.core.measures.accounting.accounting import (
    Accounting,
    BadMessage,
    BadMessageGroup,
    accounting_measure,
)
from lagbench.core.measures.accounting.commit_moves import CommitMove, commits_moved_back
from lagbench.core.measures.accounting.moved_keys import (
    NOT_BEGUN,
    MovedKey,
    MovedKeys,
    moved_keys,
)
from lagbench.core.measures.accounting.sums import SUMS, broken_sums

__all__ = [
    "NOT_BEGUN",
    "SUMS",
    "Accounting",
    "BadMessage",
    "BadMessageGroup",
    "CommitMove",
    "MovedKey",
    "MovedKeys",
    "accounting_measure",
    "broken_sums",
    "commits_moved_back",
    "moved_keys",
]
