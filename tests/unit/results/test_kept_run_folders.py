"""Kept run folders are judged as before; seals; waiting and finished messages by partition."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fakes.tampered_run import Damage, TamperedRun, records, rows
from tests.fakes.two_groups import two_groups

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.evidence.lag_readings import BIN_NS, RateSeries
from lagbench.core.scenario.event_stream import planned_partitions
from lagbench.core.scenario.scenario import PartitionPlan
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import NotReady, WrongInput
from lagbench.project import PROJECT_ROOT
from lagbench.report.outcome_files import report_again
from lagbench.results.history import read_history
from lagbench.results.measure_run import rejudge_run, what_if
from lagbench.results.read_run import misplaced_messages
from lagbench.results.run_tables import read_partition_work
from lagbench.results.seals import SEALED_FIELD, seal, seal_evidence

BINS, START = 50, 1_000 * BIN_NS
RATE = RateSeries(START, np.ones(BINS, dtype=np.int64), np.ones(BINS, dtype=np.int64))


def write(folder: RunFolder, name: str, **columns: object) -> None:
    """Write one table."""
    folder.table(name).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder.table(name) / "part-00000.parquet")


def test_work_by_partition_is_read_in_the_bins_of_the_rate(tmp_path: Path) -> None:
    """A lost message waits for nobody, a partition may come later, no bin is left out."""
    folder = RunFolder.create("messages", tmp_path)
    assert read_partition_work(folder, RATE, 2, message_seconds=None) is None  # no table
    rows = [  # partition, bin, offered, processed, lost
        (0, 3, 2, 0, 0),
        (0, 8, 0, 1, 0),
        (0, 9, 0, 1, 0),
        (1, 1, 3, 0, 1),
        (1, 5, 0, 1, 0),
        (2, -3, 1, 0, 0),
        (2, BINS + 7, 0, 1, 0),
    ]
    partition, place, offered, processed, lost = zip(*rows, strict=True)
    at = [START + bin_ * BIN_NS for bin_ in place]
    counts = {"offered": offered, "processed": processed, "lost": lost}
    write(
        folder, "timeline_by_partition", partition=pa.array(partition, pa.int32()), at=at, **counts
    )
    at = [START + bin_ * BIN_NS for bin_ in (4, 12, 15)]
    write(folder, "timeline_by_pod", at=at, pod=["a", "b", "b"], processed=[1, 1, 1])

    found = read_partition_work(folder, RATE, 2, message_seconds=0.003)

    assert found is not None
    assert found.waiting[0, 5:11].tolist() == [0, 2, 2, 2, 1, 0]
    assert (found.lost[1], found.waiting[1, -1]) == (1, 1)
    assert found.waiting.shape == (3, BINS)
    assert found.done is not None
    assert (found.done[2, -1], found.arrivals[2].sum()) == (1, 1)
    assert found.message_seconds == 0.003
    assert found.pod_rates is not None
    assert found.pod_rates.pods == ("a", "b")
    assert found.pod_rates.done[:, :2].tolist() == [[1, 0], [0, 2]]

    (folder.table("timeline_by_partition") / "part-00000.parquet").write_bytes(b"PAR1")
    with pytest.raises(NotReady, match="cannot be read"):
        read_partition_work(folder, RATE, 2, message_seconds=None)


def test_each_message_is_compared_with_its_plan(tmp_path: Path) -> None:
    """As planned there is none; two that went by the old count are two; of one size none is read.

    The last record is no event.
    """
    plan, folder = PartitionPlan(6, ((2.0, 12),)), RunFolder(tmp_path)
    assert misplaced_messages(folder, PartitionPlan(6)) == 0
    ids, offsets = np.arange(400, dtype=np.uint64), np.arange(400, dtype=np.int64) * 10_000_000
    right = planned_partitions(ids, offsets, plan)
    wrong = right.copy()
    wrong[np.flatnonzero(right >= 6)[:2]] -= 6
    for partitions, expected in ((right, 0), (wrong, 2)):
        write(
            folder,
            "events",
            partition=np.append(partitions, 0).astype(np.int32),
            entity_id=pa.array([*range(400), None], pa.int64()),
            planned_offset_ns=pa.array([*offsets.tolist(), None], pa.int64()),
        )
        assert misplaced_messages(folder, plan) == expected

    (folder.table("events") / "part-1.parquet").write_text("no parquet")
    with pytest.raises(NotReady):
        misplaced_messages(folder, plan)


def test_a_limit_that_was_loosened_afterwards_is_refused(run: TamperedRun) -> None:
    """By the name of the file, and the verdict of before stays."""
    run.set_slos(reaction_seconds=1)
    seal(run.folder)
    assert run.judge().status == "fail"
    before = run.folder.verdict.read_bytes()

    run.set_slos(reaction_seconds=60)

    with pytest.raises(WrongInput, match=r"scenario\.yaml"):
        rejudge_run(run.folder)
    assert run.folder.verdict.read_bytes() == before


@pytest.mark.parametrize("name", ["policy.yaml", "conf.json", "policy-0.yaml"])
def test_each_input_is_sealed(run: TamperedRun, name: str) -> None:
    """Changed or added: the run did not have it."""
    seal(run.folder)
    run.judge()

    path = run.folder.path / name
    before = path.read_text() if path.exists() else ""
    path.write_text(f"{before}  x: 1" if name == "policy.yaml" else json.dumps({"a": "b"}))

    with pytest.raises(WrongInput, match=name.replace(".", r"\.")):
        rejudge_run(run.folder)


def test_comments_and_a_second_seal_change_nothing(run: TamperedRun) -> None:
    """A digest is of what the file says; a retried task keeps the first one."""
    seal(run.folder)
    sealed = run.folder.read_json("manifest.json")[SEALED_FIELD]
    path = run.folder.scenario
    path.write_text(f"# read by a person\n{path.read_text()}")
    seal(run.folder)

    assert run.folder.read_json("manifest.json")[SEALED_FIELD] == sealed
    assert run.judge().status == "pass"


FORGED: dict[str, Damage] = {
    "a hundredth of the lag": rows(
        "lag", lambda _, row: {**row, "committed": row["end_offset"] - (row["lag"] or 0) // 100}
    ),
    "a second of another timeline": rows(
        "timeline", lambda run, row: None if 20 <= run.seconds(row["at"]) < 28 else row
    ),
    "no loss": lambda run: run.set_accounting(lost=0, processed_distinct=1),
    "a later fence": lambda run: run.edit_json("fence.json", lambda f: {**f, "fenced_at": None}),
    "another scaling": records("scaled", lambda _, r: {**r, "replicas_after": 3}),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_an_edited_folder_is_refused(run: TamperedRun, forge: Damage) -> None:
    """Tables and counts are sealed once they are accounted for."""
    seal_evidence(run.folder)
    forge(run)

    with pytest.raises(WrongInput, match="changed since"):
        rejudge_run(run.folder)


def test_a_repeated_accounting_is_sealed_again(run: TamperedRun) -> None:
    """The task may be retried: its own tables are no forged ones."""
    seal_evidence(run.folder)
    assert rejudge_run(run.folder).status == "pass"
    run.write_rows("bad_messages", [])
    run.set_accounting(outside_run=0)
    seal_evidence(run.folder)

    assert rejudge_run(run.folder).status == "pass"


def test_a_folder_without_seals_is_judged_and_says_so(run: TamperedRun) -> None:
    """Older versions sealed nothing."""
    verdict = run.judge()
    assert sum("not sealed" in note for note in verdict.notes) == 1

    seal(run.folder)
    assert not any("not sealed" in note for note in run.judge().notes)


def test_a_broken_limit_that_warns_is_in_every_result(run: TamperedRun) -> None:
    """In verdict.json, summary.md, the page and the history; the run passes."""
    run.set_slos(reaction_seconds={"limit": 1, "level": "warn"})
    seal(run.folder)

    assert report_again(run.folder).status == "pass"

    slos = {slo.name: (slo.status, slo.level) for slo in verdict_of(run.folder).slos}
    assert slos["reaction_seconds"] == ("warn", "warn")
    assert "| ! | Scale-out reaction |" in run.folder.read_text("summary.md")
    assert '<div class="tile warn">' in run.folder.report.read_text()
    (row,) = read_history(run.folder.path.parent)
    assert row.verdict_text == "pass, 1 warning"
    observed = row.model_copy(update={"verdict": "not_judged", "warnings": 0})
    assert observed.verdict_text == "not judged"


def test_another_limit_is_asked_for_beside_the_verdict(run: TamperedRun) -> None:
    """what-if.json has it; verdict.json stays as it was."""
    seal(run.folder)
    run.judge()
    before = run.folder.verdict.read_bytes()

    assert what_if(run.folder, {"reaction_seconds": 0.5}).status == "fail"

    found = run.folder.read_json("what-if.json")
    assert (found["set"], found["verdict"]["status"]) == ({"reaction_seconds": 0.5}, "fail")
    assert run.folder.verdict.read_bytes() == before
    with pytest.raises(WrongInput, match=r"slos\.reaction"):
        what_if(run.folder, {"reaction": 1})


KEPT = PROJECT_ROOT / "tests" / "data" / "runs"

STATUS = {
    "observe": "not_judged",
    "own_consumer": "pass",
    "spark": "pass",
    "stand_in_fail": "fail",
    "stand_in_pass": "pass",
    "stand_in_undetermined": "undetermined",
}


@dataclass(frozen=True)
class Again:
    """What the run had written, and what is written of it now, twice."""

    written: tuple[Any, Any]
    measured: tuple[Any, Any]
    pages: tuple[bytes, bytes]


@pytest.fixture(scope="module", params=STATUS)
def again(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Again:
    """Measure, judge and report a copy of a kept folder twice."""
    copy = tmp_path_factory.mktemp(request.param)
    with tarfile.open(KEPT / f"{request.param}.tar.xz") as archive:
        archive.extractall(copy, filter="data")
    (path,) = copy.iterdir()
    folder = RunFolder(path)

    def results() -> tuple[Any, Any]:
        return folder.read_json(folder.measures), verdict_of(folder).model_dump(mode="json")

    def page() -> bytes:
        folder.report.unlink(missing_ok=True)
        report_again(folder)
        return folder.report.read_bytes()

    written = results()
    pages = page(), page()
    assert written[1]["status"] == STATUS[request.param]
    return Again(written, results(), pages)


def test_a_kept_folder_is_measured_and_judged_as_it_was(again: Again) -> None:
    """Measures and verdict from the raw tables are those that the run itself wrote."""
    assert again.measured == again.written


def test_its_report_is_rebuilt_to_the_byte(again: Again) -> None:
    """The page depends on the folder alone: not on the time, nor on what was there before."""
    assert again.pages[0] == again.pages[1]


def verdict_of(folder: RunFolder) -> Verdict:
    """Return the verdict in the folder."""
    return Verdict.model_validate(folder.read_json(folder.verdict))


def test_a_second_group_that_misses_its_slo_fails_the_run(tmp_path: Path) -> None:
    """Its own limit counts; its folder has its own verdict and report, and the run's has both.

    The history has one line with the measures of both, and the run's report leads to the other.
    """
    folder = two_groups(tmp_path, reaction_seconds=1)
    second = folder.second
    assert second is not None

    verdict = report_again(folder)

    own = verdict_of(second)
    assert (verdict.status, own.status) == ("fail", "fail")
    assert (verdict, own.run_id) == (verdict_of(folder), f"{folder.run_id}/second_group")
    assert [slo.name for slo in own.slos if slo.status == "fail"] == ["reaction_seconds"]
    failed = [slo.name for slo in verdict.slos if slo.status == "fail"]
    assert failed == ["second_group.reaction_seconds"]
    assert all(reason.startswith("second group: ") for reason in verdict.reasons)
    (row,) = read_history(tmp_path)
    assert row.run_id == folder.run_id
    assert row.measures["second_group.reaction_seconds"] == row.measures["reaction_seconds"]
    assert not (folder.path / "history.parquet").exists()
    page = folder.report.read_text()
    assert "Second group: fail" in page
    assert 'href="second_group/report.html"' in page
    assert second.report.is_file()
    assert "second_group.reaction_seconds" in folder.junit.read_text()
    assert "second_group.reaction" not in second.junit.read_text()


@pytest.mark.parametrize("missing", ["tables", "manifest.json"])
def test_a_second_group_that_cannot_be_measured_leaves_the_run_open(
    tmp_path: Path, missing: str
) -> None:
    """With the same limits both pass; then the run's verdict names what no longer can be."""
    folder = two_groups(tmp_path)
    second = folder.second
    assert second is not None
    assert rejudge_run(folder).status == "pass"
    path = second.path / missing
    path.rename(tmp_path / "away")

    verdict = rejudge_run(folder)

    assert (verdict.status, verdict_of(second).status) == ("undetermined", "undetermined")
    assert "second_group" in verdict.reasons[0]
