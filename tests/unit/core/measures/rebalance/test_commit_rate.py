"""The rate of a group by its committed offsets."""

from __future__ import annotations

import numpy as np

from lagbench.core.measures.evidence import BIN_NS, RateSeries, lag_series
from lagbench.core.measures.rebalance.commit_rate import rate_of_commits

SECOND = 10 * BIN_NS


def rate() -> RateSeries:
    """Return four seconds in which 1,000 messages a second came."""
    offered = np.full(40, 100, dtype=np.int64)
    return RateSeries(0, offered, np.zeros(40, dtype=np.int64))


def lag(*committed: int | None) -> object:
    """Return a reading a second of one partition."""
    ats = [second * SECOND for second in range(len(committed))]
    return lag_series(
        at=ats, partition=[0] * len(ats), end_offset=[9_000] * len(ats), committed=list(committed)
    )


def test_a_commit_is_the_work_since_the_reading_before() -> None:
    """The messages of a second are spread over its bins, and none is counted twice."""
    found = rate_of_commits(rate(), lag(0, 500, 500, 2_000))  # type: ignore[arg-type]

    assert found.processed[:10].tolist() == [50] * 10
    assert found.processed[10:20].sum() == 0
    assert found.processed.sum() == 2_000
    assert (found.offered == 100).all()


def test_an_offset_that_went_back_adds_nothing_until_it_is_ahead_again() -> None:
    """Work that is done again is no progress."""
    found = rate_of_commits(rate(), lag(0, 1_000, 400, 1_200))  # type: ignore[arg-type]

    assert found.processed.sum() == 1_200
    assert found.processed[10:20].sum() == 0


def test_without_a_reading_nothing_is_known() -> None:
    """The rate stays as it was."""
    known = rate()

    assert rate_of_commits(known, lag()) is known  # type: ignore[arg-type]
