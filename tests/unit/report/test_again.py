"""A run that is judged again shows one verdict in all its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fakes.run_folder_builder import quick_spike_run
from tests.fakes.two_groups import two_groups

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.errors import NotReady
from lagbench.report.again import report_again


def test_a_run_that_can_no_longer_be_measured_keeps_no_page_of_its_pass(tmp_path: Path) -> None:
    """Its verdict is undetermined, junit.xml counts an error, and the page of the pass is gone."""
    folder = quick_spike_run().write(tmp_path)
    assert report_again(folder).status == "pass"
    shutil.rmtree(folder.table("lag"))

    with pytest.raises(NotReady):
        report_again(folder)

    assert folder.read_json(folder.verdict)["status"] == "undetermined"
    assert 'errors="1"' in folder.junit.read_text()
    assert not folder.report.exists()


@pytest.mark.parametrize("is_second", [False, True])
def test_no_group_keeps_a_page_of_an_earlier_verdict(tmp_path: Path, *, is_second: bool) -> None:
    """Where one group cannot be measured, the page of each is as new as its verdict, or gone."""
    folder = two_groups(tmp_path)
    second = folder.second
    assert second is not None
    report_again(folder)
    for group in folder.groups:
        group.write_text(group.report, "the page of a pass")
        group.write_json(group.verdict, {"status": "pass of before"})
    lost, other = (second, folder) if is_second else (folder, second)
    shutil.rmtree(lost.table("lag"))

    try:
        report_again(folder)
    except NotReady:
        assert not is_second

    assert not lost.report.exists()
    assert 'errors="1"' in lost.junit.read_text()
    assert _status(lost) == "undetermined"
    assert _status(other) == ("undetermined" if is_second else "pass")
    assert not other.report.exists() or "the page of a pass" not in other.report.read_text()


def _status(folder: RunFolder) -> str:
    return str(folder.read_json(folder.verdict)["status"])
