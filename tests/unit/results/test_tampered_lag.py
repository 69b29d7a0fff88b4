"""Lag that nobody saw, in recorded runs that were tampered with."""

from __future__ import annotations

import pytest
from tests.fakes.tampered_run import TamperedRun, drop_lag, set_lag, slo


def test_a_recorder_that_died_after_the_spike_fails_nothing(run: TamperedRun) -> None:
    """Nobody looked whether lag came down within 10 s."""
    set_lag(run, lambda _second, row: row["lag"] or 0)
    drop_lag(run, 18.5, 1e9)
    run.drop_records("lag_sample", from_seconds=18.5)
    run.set_slos(drain_seconds=10)

    assert slo(run.judge(), "drain_seconds").status == "undetermined"


def test_a_drain_in_a_gap_is_as_wide_as_the_gap(run: TamperedRun) -> None:
    """Gap from the spike's end to 12 s after: it was drained in 0 to 12.3 s."""
    drop_lag(run, 18.5, 30)
    run.set_slos(drain_seconds=10)

    found = slo(run.judge(), "drain_seconds")

    assert found.status == "undetermined"
    assert found.low == pytest.approx(0, abs=1)
    assert found.value == pytest.approx(12.3, abs=0.1)


def test_samples_that_know_nothing_are_a_gap(run: TamperedRun) -> None:
    """There are rows, but no total: the drain's precision is the distance to the last known."""
    set_lag(run, lambda second, row: None if 30 < second < 41 else row["lag"])

    assert run.measure().drain.precision_seconds == pytest.approx(12, abs=1)


@pytest.mark.parametrize("added_seconds", [10.0, 35.0])
def test_a_partition_added_in_mid_run_moves_no_earlier_number(
    run: TamperedRun, added_seconds: float
) -> None:
    """Before its first row it held nothing."""
    before = run.measure()
    rows = run.rows("lag")
    instants = sorted({row["at"] for row in rows if run.seconds(row["at"]) >= added_seconds})
    added = [
        {"at": at, "partition": 4, "end_offset": 0, "committed": None, "lag": 0} for at in instants
    ]
    run.write_rows("lag", [*rows, *added])

    after = run.measure()

    assert after.reaction.assigned_seconds == before.reaction.assigned_seconds
    assert after.reaction.links[1] == before.reaction.links[1]
    assert after.lag.peak_records == before.lag.peak_records
    assert after.drain == before.drain


def test_a_partition_without_any_row_leaves_lag_unknown(run: TamperedRun) -> None:
    """It was there when the stream began, so the total without it is no total."""
    run.edit_rows("lag", lambda row: None if row["partition"] == 3 else row)
    run.set_slos(drain_seconds=60)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert slo(verdict, "drain_seconds").status == "undetermined"
