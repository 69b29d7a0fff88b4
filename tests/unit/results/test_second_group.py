"""Results of a run with two consumer groups, from its folder alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fakes.two_groups import two_groups

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.verdict.verdict import Verdict
from lagbench.report.outcome_files import write_junit
from lagbench.report.page import write_report
from lagbench.results.history import read_history
from lagbench.results.measure_run import rejudge_run


def written(folder: RunFolder) -> Verdict:
    """Return the verdict in the folder."""
    return Verdict.model_validate(folder.read_json(folder.verdict))


def test_a_second_group_that_misses_its_slo_fails_the_run(tmp_path: Path) -> None:
    """Its own limit counts; its folder has its own verdict, and the run's has both."""
    folder = two_groups(tmp_path, reaction_seconds=1)

    verdict = rejudge_run(folder)

    assert folder.second is not None
    own = written(folder.second)
    assert (verdict.status, own.status) == ("fail", "fail")
    assert verdict == written(folder)
    assert own.run_id == f"{folder.run_id}/second_group"
    assert [slo.name for slo in own.slos if slo.status == "fail"] == ["reaction_seconds"]
    failed = [slo.name for slo in verdict.slos if slo.status == "fail"]
    assert failed == ["second_group.reaction_seconds"]
    assert all(reason.startswith("second group: ") for reason in verdict.reasons)


def test_two_good_groups_pass(tmp_path: Path) -> None:
    """The same limits as the first group's hold for the same measures."""
    assert rejudge_run(two_groups(tmp_path)).status == "pass"


@pytest.mark.parametrize("missing", ["tables", "manifest.json"])
def test_a_second_group_that_cannot_be_measured_leaves_the_run_open(
    tmp_path: Path, missing: str
) -> None:
    """The run's verdict names it; no earlier verdict of the second group stays."""
    folder = two_groups(tmp_path)
    assert folder.second is not None
    rejudge_run(folder)
    path = folder.second.path / missing
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()

    verdict = rejudge_run(folder)

    assert verdict.status == "undetermined"
    assert written(folder.second).status == "undetermined"
    assert "second_group" in verdict.reasons[0]


def test_the_history_has_one_line_with_the_measures_of_both(tmp_path: Path) -> None:
    """The second group's are named with it, and no second run appears."""
    folder = two_groups(tmp_path)

    rejudge_run(folder)

    (row,) = read_history(tmp_path)
    assert row.run_id == folder.run_id
    assert row.measures["reaction_seconds"] is not None
    assert row.measures["second_group.reaction_seconds"] == row.measures["reaction_seconds"]
    assert not (folder.path / "history.parquet").exists()


def test_the_run_s_report_leads_to_the_second_group_s(tmp_path: Path) -> None:
    """Both are written; a section names the second group's verdict and links its report."""
    folder = two_groups(tmp_path, reaction_seconds=1)
    rejudge_run(folder)

    page = write_report(folder).read_text()
    write_junit(folder)

    assert folder.second is not None
    assert "Second group: fail" in page
    assert 'href="second_group/report.html"' in page
    assert folder.second.report.is_file()
    assert "second_group.reaction_seconds" in folder.junit.read_text()
    assert "second_group.reaction" not in folder.second.junit.read_text()
