"""Collect the affected messages of a stream by their seqs, and return them as ranges."""

from __future__ import annotations

from array import array

import numpy as np


class SeqRanges:
    """Collect seqs in any order; 8 bytes each, so a rejected stream of 10 million costs 80 MB."""

    def __init__(self) -> None:
        """Start with none."""
        self._seqs = array("Q")

    @property
    def count(self) -> int:
        """Return how many were added."""
        return len(self._seqs)

    def add(self, seq: int) -> None:
        """Add one."""
        self._seqs.append(seq)

    def ranges(self, *, most: int) -> list[tuple[int, int]] | None:
        """Return the seqs as ranges [first, last], ascending; None if more than ``most``."""
        if not self._seqs:
            return []
        seqs = np.unique(np.frombuffer(self._seqs, dtype=np.uint64))
        ends = np.flatnonzero(np.diff(seqs) > 1)
        if len(ends) >= most:
            return None
        first = seqs[np.concatenate([[0], ends + 1])]
        last = seqs[np.concatenate([ends, [len(seqs) - 1]])]
        return list(zip(first.tolist(), last.tolist(), strict=True))
