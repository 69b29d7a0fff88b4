"""Accounting: every message in exactly one class."""

from lagbench.core.measures.accounting.accounting import (
    Accounting,
    BadMessage,
    BadMessageGroup,
    CommitMove,
    accounting_measure,
    commits_moved_back,
    moved_text,
    never_done,
)
from lagbench.core.measures.accounting.sums import broken_sums

__all__ = [
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
