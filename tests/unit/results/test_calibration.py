"""Estimates of pods from a kept run, whose scenario has process_ms 4, and of the same run idle."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from tests.fakes.tampered_run import Row, TamperedRun

from lagbench.cli.calibrate_command import calibrate
from lagbench.core.measures.calibration import Calibration, calibration
from lagbench.errors import ExitCode, WrongInput
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


def _halve_table(name: str) -> Callable[[TamperedRun], object]:
    def halve(run: TamperedRun) -> None:
        for part in run.folder.table(name).glob("*.parquet"):
            part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])

    return halve


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: run.folder.manifest.unlink(),
        lambda run: run.folder.manifest.write_text('{"created_at": 1, "conf'),
        lambda run: run.folder.manifest.write_text('{"folder_format": 2}'),
        lambda run: run.folder.scenario.write_bytes(b"\xff\xfe"),
        lambda run: run.folder.policy.unlink(),
        lambda run: run.folder.fence.write_text("{}"),
        lambda run: shutil.rmtree(run.folder.tables),
        lambda run: run.edit_rows("lag", lambda row: {"at": row["at"]}),
        _halve_table("telemetry"),
        _halve_table("processed"),
    ],
)
def test_a_broken_run_is_wrong_input(
    damage: Callable[[TamperedRun], object], run: TamperedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever file is missing, cut or of another program."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(run.folder.path.parent))
    damage(run)

    with pytest.raises(WrongInput) as refused:
        calibrate(run.folder.run_id)

    assert refused.value.field == "RUN"


def test_a_run_without_a_message_has_not_enough_data(
    run: TamperedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pod was added, either."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(run.folder.path.parent))
    run.drop_records("consumer_progress", "pod_seen")
    for table in ("lag", "timeline"):
        run.edit_rows(table, lambda _: None)

    assert calibrate(run.folder.run_id) == ExitCode.UNDETERMINED
