"""Runs compared with each other."""

from lagbench.core.compare.cell_identity import cell_id, content_digest

__all__ = [
    "cell_id",
    "content_digest",
]
