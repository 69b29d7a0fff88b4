"""Estimates of pods from a kept run, whose scenario has process_ms 4, and of the same run idle."""

from __future__ import annotations

import pytest
from tests.fakes.tampered_run import Row, TamperedRun

from lagbench.core.measures.calibration import Calibration, calibration
from lagbench.results.read_run import read_evidence


def calibrated(run: TamperedRun) -> Calibration:
    """Return the estimates of the run."""
    return calibration(read_evidence(run.folder))


def test_a_run_with_busy_pods_shows_what_its_pods_did(run: TamperedRun) -> None:
    """Three pods were added; their own commands took 4 ms for a message."""
    found = calibrated(run)

    assert found.process_ms.median == pytest.approx(4, rel=0.03)
    assert found.process_ms.n > 100
    assert found.concurrency == 1
    assert (found.start_seconds.n, found.join_seconds.n) == (3, 3)
    assert found.start_seconds.median == pytest.approx(2.4, abs=0.1)


def test_pods_that_were_never_busy_show_a_bound(run: TamperedRun) -> None:
    """No figure is made of it."""

    def idle(row: Row) -> Row:
        return {**row, "queued": 0}

    run.edit_records(idle, "consumer_progress")
    run.drop_records("pod_seen")
    found = calibrated(run)

    medians = {found.process_ms.median, found.start_seconds.median, found.join_seconds.median}
    assert medians == {None}
    assert "a lower bound" in found.process_ms.note
