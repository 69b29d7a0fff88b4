"""Name the owner of a task's work in the ledger, where a consumer group has its member."""

from __future__ import annotations

SPARK_MEMBER = r"^batch-(\d+)\.\d+$"
"""The first group is the number of the micro-batch."""


def spark_member(batch: int, task: int) -> str:
    """Return the name of a task of a micro-batch; a task that is done again has another number."""
    return f"batch-{batch}.{task}"
