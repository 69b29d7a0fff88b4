"""The line of consumed messages where only committed offsets tell of the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.tampered_run import SECOND, Row, tampered

from lagbench.core.measures.evidence import Observation
from lagbench.report.run_series import Series, read_series


def messages(line: Series) -> float:
    """Return the messages below a line of a rate over bins of 100 ms."""
    return float(np.nansum(line.values)) / 10


def test_a_consumer_of_which_only_commits_are_known_is_drawn_by_them(tmp_path: Path) -> None:
    """The table has no processed message of it; the line has those that it committed."""
    run = tampered(tmp_path)
    measures = run.measure()
    before = read_series(run.folder, measures)

    def without_work(row: Row) -> Row:
        return {**row, "processed": 0, "processed_again": 0}

    run.edit_rows("timeline", without_work)
    after = read_series(run.folder, measures.model_copy(update={"accounting_level": "commits"}))

    assert messages(before.consumed) > 0
    assert abs(messages(after.consumed) / messages(before.consumed) - 1) < 0.05
    assert abs(messages(after.offered) / messages(before.offered) - 1) < 0.001


@pytest.mark.parametrize(
    "known_by",
    [{"accounting_level": "commits"}, {"observation": Observation(group="shop", topic="orders")}],
)
def test_a_gap_of_the_readings_is_a_gap_of_the_consumed(
    tmp_path: Path, known_by: dict[str, Any]
) -> None:
    """Without offsets for 8 s under load the line is broken, and no zero or burst is drawn."""
    run = tampered(tmp_path)
    measures = run.measure()
    start_at = measures.load.first_spike_started_at or 0

    def read_at(row: Row) -> bool:
        return not 4 < (row["at"] - start_at) / SECOND < 12

    run.edit_rows("lag", lambda row: row if read_at(row) else None)
    found = read_series(run.folder, measures.model_copy(update=known_by)).consumed

    inside = (found.seconds > 5.5) & (found.seconds < 11)
    outside = (found.seconds > 15) & (found.seconds < 22)
    assert inside.any()
    assert np.isnan(found.values[inside]).all()
    assert not np.isnan(found.values[outside]).any()
