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
from lagbench.core.live.live_line import LiveCell, LiveLine, LiveSlo, LiveSpike, encode_line
from lagbench.core.verdict.slo import SloResult, SloStatus
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import NotReady, WrongInput
from lagbench.report.outcome_files import junit_xml, report_again, write_junit
from lagbench.report.stopped_run import stopped_run, write_stopped
from lagbench.results.history import read_history, update_history
from lagbench.results.seals import seal

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
        # What only warns is neither a failure nor an error.
        (
            {"slos": (slo("b", "fail").as_warning(), slo("c", "undetermined").as_warning())},
            (2, 0, 0, 1),
            [
                ("system-out", "warning: B: 3.5 s (at most 5 s). pod <x> &  co"),
                ("skipped", "warning: C: 3.5 s (at most 5 s). pod <x> &  co"),
            ],
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
    assert (suite.findtext("system-out") or "").splitlines() == [
        *verdict.notes,
        *(f"warning: {text.replace(chr(0), '')}" for text in verdict.warnings),
    ]


@pytest.mark.parametrize("is_second", [False, True])
def test_no_group_keeps_a_page_of_an_earlier_verdict(tmp_path: Path, *, is_second: bool) -> None:
    """Where one group cannot be measured, the page of each is as new as its verdict, or gone."""
    folder = two_groups(tmp_path)
    second = folder.second
    assert second is not None
    assert report_again(folder).status == "pass"
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
    statuses = [group.read_json(group.verdict)["status"] for group in (lost, other)]
    assert statuses == ["undetermined", "undetermined" if is_second else "pass"]
    assert not other.report.exists() or "the page of a pass" not in other.report.read_text()


CELL = LiveCell(
    run_id="run-1",
    scenario="quick_spike",
    policy="lag-quick",
    partitions=12,
    planned_seconds=80.0,
    settled_seconds=None,
    floor_replicas=2,
    ceiling_replicas=12,
    spikes=[LiveSpike(start_seconds=10.0, end_seconds=70.0)],
    slos=[LiveSlo(name="flips", title="Flapping", limit="at most 0 flips", unit="flips")],
)


HALF = '{"name": "ü'
"""A run that was killed may have written half of a line, and of a letter."""


def stopped(tmp_path: Path) -> RunFolder:
    """Return the folder of a run that was stopped 177 s after its spike began, at 187 s."""
    folder = quick_spike_run().write(tmp_path)
    for name in ("accounting", "fence", "measures", "verdict"):
        (folder.path / f"{name}.json").unlink(missing_ok=True)
    shutil.rmtree(folder.tables)
    phases = [("inject_spike", "finished"), ("lag_at_rest", "started"), ("lag_at_rest", "progress")]
    lines = [json.dumps({"at": 10**18, "name": n, "state": s, "detail": ""}) for n, s in phases]
    folder.phases.write_bytes("\n".join([*lines, HALF]).encode()[:-1])
    live = [
        LiveLine(at=1, run=CELL),
        LiveLine(at=2, second=90.0, lag=9000, replicas=(6, 6), time_lag_seconds=12.0),
        LiveLine(at=3, second=187.4, lag=42, replicas=(6, 5), standing={"flips": (1, "broken")}),
    ]
    folder.live.write_bytes(b"".join(map(encode_line, live)) + HALF.encode()[:-1])
    return folder


def test_a_stopped_run_tells_what_was_seen(tmp_path: Path) -> None:
    """State and instant since the spike, extremes and SLOs; a line cut off is left out."""
    folder = stopped(tmp_path)
    run = stopped_run(folder)

    assert run.text == "stopped at +177 s (draining), not accounted for"
    assert [value for _, value, _ in run.seen] == [9000, 42, 12.0, 6]
    assert [(slo.name, *standing) for slo, *standing in run.slos] == [("flips", 1, "broken")]
    tables = json.loads(run.data())["tables"]
    assert tables["lag"]["columns"]["total"] == [None, 9000, 42]
    folder.live.unlink()
    folder.phases.unlink()
    assert stopped_run(folder).text.startswith("stopped before its stream began")


@pytest.mark.parametrize(
    ("left", "remedy"),
    [
        ((), "lagbench run"),
        (("events", "processed", "telemetry"), "lagbench account"),
        (("copies",), "lagbench account"),
    ],
)
def test_a_run_without_accounting_gets_a_page_and_no_half_verdict(
    tmp_path: Path, left: tuple[str, ...], remedy: str
) -> None:
    """Whatever was landed of it, the message names the page and the command that goes on."""
    folder = stopped(tmp_path)
    folder.write_json(folder.verdict, {"status": "undetermined", "slos": []})
    update_history(folder)
    assert [row.run_id for row in read_history(tmp_path)] == [folder.run_id]
    for name in left:
        folder.write_text(folder.table(name) / "_SUCCESS", "")
    if left == ("copies",):
        for kind in ("events", "processed", "telemetry"):
            folder.copy(kind).mkdir(parents=True)

    with pytest.raises(NotReady, match=remedy) as told:
        report_again(folder)

    assert str(folder.report) in str(told.value)
    assert "broken" in folder.report.read_text()
    half = (folder.verdict, folder.junit, folder.measures)
    assert [path.exists() for path in half] == [False, False, False]
    assert read_history(tmp_path) == []


def test_a_stopped_run_whose_input_was_changed_says_so(tmp_path: Path) -> None:
    """It has no verdict for junit.xml, and that is not what is wrong with it."""
    folder = stopped(tmp_path)
    seal(folder)
    folder.write_text(folder.policy, "changed")

    with pytest.raises(WrongInput, match="policy"):
        report_again(folder)


def test_no_verdict_of_a_second_group_stays_beside_the_page_of_a_stopped_run(
    tmp_path: Path,
) -> None:
    """Of an earlier try, with its page."""
    folder = stopped(tmp_path)
    second = folder.make_second()
    for path in (second.scenario, second.verdict, second.report):
        second.write_text(path, "{}")

    write_stopped(folder)

    assert [path.exists() for path in (second.verdict, second.report)] == [False, False]
