"""Accounting: every message in exactly one class."""

from lagbench.core.measures.accounting.accounting import (
    Accounting,
    BadMessage,
    BadMessageGroup,
    accounting_measure,
)
from lagbench.core.measures.accounting.commit_moves import CommitMove, commits_moved_back
from lagbench.core.measures.accounting.moved_text import moved_text
from lagbench.core.measures.accounting.never_done import never_done
from lagbench.core.measures.accounting.sums import SUMS, broken_sums

__all__ = [
    "SUMS",
    "Accounting",
    "BadMessage",
    "BadMessageGroup",
    "CommitMove",
    "accounting_measure",
    "broken_sums",
    "commits_moved_back",
    "moved_text",
    "never_done",
]
