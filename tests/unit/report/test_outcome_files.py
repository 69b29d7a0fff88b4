"""The verdict as JUnit XML."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests.fakes.run_folder_builder import quick_spike_run
from tests.fakes.two_groups import two_groups

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.live.live_line import LiveCell, LiveLine, LiveSlo, encode_line
from lagbench.core.verdict.slo import SloResult, SloStatus
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import NotReady
from lagbench.report.outcome_files import (
    junit_xml,
    report_again,
    stopped_run,
    write_junit,
    write_stopped,
)

STATUSES: tuple[SloStatus, ...] = ("pass", "fail", "undetermined", "not_judged")


def slo(name: str, status: SloStatus) -> SloResult:
    """Return an SLO's result; XML cannot hold all of its reason."""
    return SloResult(
        name=name,
        title=name.title(),
        threshold="at most 5 s",
        value=3.5,
        unit="s",
        status=status,
        reason="pod <x> & \x00 co",
    )


SLOS = tuple(slo(name, status) for name, status in zip("abcd", STATUSES, strict=True))

ALL = Verdict(run_id="run-1", status="fail", reasons=("B: because",), slos=SLOS)

CLAIM = SLOS[0].model_copy(update={"threshold": "must hold", "value": None})


@pytest.mark.parametrize(
    ("changes", "counts", "cases"),
    [
        (
            {},
            (4, 1, 1, 1),
            [
                ("system-out", "A: 3.5 s (at most 5 s). pod <x> &  co"),
                ("failure", "B: 3.5 s (at most 5 s). pod <x> &  co"),
                ("error", "C: 3.5 s (at most 5 s). pod <x> &  co"),
                ("skipped", "D: 3.5 s (at most 5 s). pod <x> &  co"),
            ],
        ),
        # Every SLO passes, but the run was not drained: JUnit must not show a pass.
        (
            {"status": "undetermined", "reasons": ("not drained",), "slos": SLOS[:1]},
            (2, 0, 1, 0),
            [("system-out", "A: 3.5 s (at most 5 s). pod <x> &  co"), ("error", "not drained")],
        ),
        # Of an invalid run the SLOs say what was measured; its reason is told once.
        (
            {"status": "undetermined", "reasons": ("late",), "invalid": ("late",), "slos": ()},
            (1, 0, 1, 0),
            [("error", "late")],
        ),
        # A claim has no number, and says yes instead.
        (
            {"slos": (CLAIM,)},
            (1, 0, 0, 0),
            [("system-out", "A: yes (must hold). pod <x> &  co")],
        ),
        # Notes decide nothing: they are the suite's.
        ({"slos": (), "notes": ("12 replicas", "a gap")}, (0, 0, 0, 0), []),
    ],
)
def test_each_status_has_its_element(
    tmp_path: Path, changes: dict[str, Any], counts: tuple[int, ...], cases: list[tuple[str, str]]
) -> None:
    """junit.xml lies in the run folder: failure, error and skipped, with counts on the suite."""
    folder = RunFolder.create("run-1", tmp_path)
    verdict = ALL.model_copy(update=changes)
    folder.write_json(folder.verdict, verdict.model_dump(mode="json"))

    suite = ET.parse(write_junit(folder)).getroot()  # noqa: S314 - our own output

    assert folder.junit.read_text() == junit_xml(verdict)
    assert suite.get("name") == "lagbench.run-1"
    names = ("tests", "failures", "errors", "skipped")
    assert tuple(int(suite.get(name, "")) for name in names) == counts
    assert [(e.tag, e.get("message", e.text)) for case in suite for e in case] == cases
    assert suite.findtext("system-out") == ("12 replicas\na gap" if "notes" in changes else None)


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


CELL = LiveCell(
    run_id="run-1",
    scenario="quick_spike",
    policy="lag-quick",
    partitions=12,
    planned_seconds=80.0,
    settled_seconds=None,
    floor_replicas=2,
    ceiling_replicas=12,
    spikes=[],
    slos=[LiveSlo(name="flips", title="Flapping", limit="at most 0 flips", unit="flips")],
)


def test_the_page_says_how_far_the_run_came(tmp_path: Path) -> None:
    """The last second and phase that were reported; a line that was cut off is left out."""
    folder = RunFolder.create("run-1", tmp_path)
    phases = [("inject_spike", "finished"), ("lag_drained", "started"), ("lag_drained", "progress")]
    lines = [json.dumps({"at": 10**18, "name": n, "state": s, "detail": ""}) for n, s in phases]
    folder.phases.write_text("\n".join([*lines, '{"at": 1']))
    live = [
        LiveLine(at=1, run=CELL),
        LiveLine(at=2, second=177.4, lag=4211, replicas=(6, 5), standing={"flips": (1, "broken")}),
    ]
    folder.live.write_bytes(b"".join(map(encode_line, live)) + b'{"at":')

    run = write_stopped(folder)

    assert (run.second, run.lag, run.replicas) == (177.4, 4211, (6, 5))
    assert run.text.startswith("stopped at 177 s in lag_drained")
    page = folder.report.read_text()
    assert "broken" in page
    assert not folder.verdict.exists()


def test_a_run_that_never_began_its_stream_says_so(tmp_path: Path) -> None:
    """There is nothing but its folder."""
    folder = RunFolder.create("run-1", tmp_path)

    assert stopped_run(folder).text.startswith("stopped before its stream began")
