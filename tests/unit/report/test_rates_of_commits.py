"""The line of consumed messages where only committed offsets tell of the work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.fakes.tampered_run import Row, tampered

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
