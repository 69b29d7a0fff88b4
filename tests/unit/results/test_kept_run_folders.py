"""Kept run folders are judged as before; seals; waiting and finished messages by partition."""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fakes.tampered_run import TamperedRun
from tests.fakes.two_groups import two_groups

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.evidence.lag_readings import BIN_NS, RateSeries
from lagbench.core.measures.partition_work import PartitionWork
from lagbench.core.scenario.event_stream import planned_partitions
from lagbench.core.scenario.scenario import PartitionPlan
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import NotReady, WrongInput
from lagbench.project import PROJECT_ROOT
from lagbench.report.outcome_files import report_again, write_junit
from lagbench.report.page import write_report
from lagbench.results.history import read_history
from lagbench.results.measure_run import rejudge_run, what_if
from lagbench.results.read_run import misplaced_messages
from lagbench.results.run_tables import read_partition_work
from lagbench.results.seals import SEALED_FIELD, seal

START = 1_000 * BIN_NS

BINS = 50

RATE = RateSeries(START, np.ones(BINS, dtype=np.int64), np.ones(BINS, dtype=np.int64))

Counts = tuple[int, int, int, int, int]  # partition, bin, offered, processed, lost


def write(folder: RunFolder, name: str, columns: dict[str, object]) -> None:
    """Write one table."""
    folder.table(name).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder.table(name) / "part-00000.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return a run folder without tables."""
    return RunFolder.create("messages", tmp_path)


def work(folder: RunFolder, *rows: Counts, pods: tuple[tuple[str, int], ...] = ()) -> PartitionWork:
    """Return the work of two partitions; ``pods`` finished a message each, in these bins."""
    partition, place, offered, processed, lost = zip(*rows, strict=True)
    write(
        folder,
        "timeline_by_partition",
        {
            "partition": pa.array(partition, pa.int32()),
            "at": [START + bin_ * BIN_NS for bin_ in place],
            "offered": offered,
            "processed": processed,
            "lost": lost,
        },
    )
    ats = [START + bin_ * BIN_NS for _, bin_ in pods]
    columns = {
        "at": pa.array(ats, pa.int64()),
        "pod": pa.array([pod for pod, _ in pods], pa.string()),
        "processed": pa.array([1] * len(pods), pa.int64()),
    }
    write(folder, "timeline_by_pod", columns)
    found = read_partition_work(folder, RATE, 2, message_seconds=0.003)
    assert found is not None
    return found


def test_messages_wait_by_partition_and_bin(folder: RunFolder) -> None:
    """Two in partition 0, one in partition 1; what is planned in bin 3 waits from bin 6 on."""
    found = work(
        folder, (0, 3, 2, 0, 0), (0, 8, 0, 1, 0), (0, 9, 0, 1, 0), (1, 4, 1, 0, 0), (1, 8, 0, 1, 0)
    )

    assert found.waiting[0, 5:11].tolist() == [0, 2, 2, 2, 1, 0]
    assert found.waiting[1, 6:10].tolist() == [0, 1, 1, 0]
    assert found.message_seconds == 0.003


def test_a_lost_message_waits_for_nobody(folder: RunFolder) -> None:
    """Of three one is lost, one done, one waits."""
    found = work(folder, (0, 1, 3, 0, 1), (0, 5, 0, 1, 0))

    assert found.lost[1] == 1
    assert found.waiting[0, -1] == 1


def test_what_pods_did_is_counted_by_second(folder: RunFolder) -> None:
    """Pod b did two in second 1, pod a one in second 0."""
    found = work(folder, (0, 1, 3, 3, 0), pods=(("a", 4), ("b", 12), ("b", 15)))

    assert found.pod_rates is not None
    assert found.pod_rates.pods == ("a", "b")
    assert found.pod_rates.done[:, :2].tolist() == [[1, 0], [0, 2]]


def test_a_partition_that_came_later_is_counted(folder: RunFolder) -> None:
    """The scenario asked for two, the log has three."""
    assert work(folder, (0, 0, 1, 0, 0), (2, 20, 1, 0, 0)).waiting.shape == (3, BINS)


def test_bins_outside_of_the_rate_count_at_its_edge(folder: RunFolder) -> None:
    """The rate ends with the last record: no message is left out."""
    found = work(folder, (0, -3, 1, 0, 0), (0, BINS + 7, 0, 1, 0))

    assert found.done is not None
    assert found.done[0, -1] == 1
    assert found.arrivals.sum() == 1


def test_without_the_table_there_is_nothing(folder: RunFolder) -> None:
    """The caller takes the samples of the lag."""
    assert read_partition_work(folder, RATE, 2, message_seconds=None) is None


def test_a_broken_table_is_not_ready(folder: RunFolder) -> None:
    """A half written file is named, not taken for an absent table."""
    work(folder, (0, 0, 1, 1, 0))
    (folder.table("timeline_by_partition") / "part-00000.parquet").write_bytes(b"PAR1")

    with pytest.raises(NotReady, match="cannot be read"):
        read_partition_work(folder, RATE, 2, message_seconds=None)


PLAN = PartitionPlan(6, ((2.0, 12),))


def written(root: Path, partitions: np.ndarray) -> RunFolder:
    """Return a run of 4 s, one message in 10 ms; the last record is no event."""
    folder = RunFolder(root)
    folder.table("events").mkdir(parents=True)
    rows = {
        "partition": np.append(partitions, 0).astype(np.int32),
        "entity_id": pa.array([*range(400), None], pa.int64()),
        "planned_offset_ns": pa.array([*(np.arange(400) * 10_000_000).tolist(), None], pa.int64()),
    }
    pq.write_table(pa.table(rows), folder.table("events") / "part-0.parquet")
    return folder


def planned() -> np.ndarray:
    """Return the planned partition of each message."""
    ids, offsets = np.arange(400, dtype=np.uint64), np.arange(400, dtype=np.int64) * 10_000_000
    return planned_partitions(ids, offsets, PLAN)


def test_each_message_is_compared_with_its_plan(tmp_path: Path) -> None:
    """As planned there is none; two that went by the old count are two."""
    right = planned()
    assert misplaced_messages(written(tmp_path / "right", right), PLAN) == 0

    moved = np.flatnonzero(right >= 6)[:2]
    right[moved] -= 6

    assert misplaced_messages(written(tmp_path / "wrong", right), PLAN) == 2


def test_without_a_growth_nothing_is_read(tmp_path: Path) -> None:
    """A topic of one size has one place for each key, and may be large."""
    folder = RunFolder(tmp_path)

    assert misplaced_messages(folder, PartitionPlan(6)) == 0


def test_a_broken_table_is_reported(tmp_path: Path) -> None:
    """What cannot be read proves nothing."""
    folder = written(tmp_path, planned())
    (folder.table("events") / "part-1.parquet").write_text("no parquet")

    with pytest.raises(NotReady):
        misplaced_messages(folder, PLAN)


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


def test_a_folder_without_seals_is_judged_and_says_so(run: TamperedRun) -> None:
    """Older versions sealed nothing."""
    verdict = run.judge()
    assert sum("not sealed" in note for note in verdict.notes) == 1

    seal(run.folder)
    assert not any("not sealed" in note for note in run.judge().notes)


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
    "observe": "undetermined",
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
        return folder.read_json(folder.measures), folder.read_json(folder.verdict)

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


def written_of_second_group(folder: RunFolder) -> Verdict:
    """Return the verdict in the folder."""
    return Verdict.model_validate(folder.read_json(folder.verdict))


def test_a_second_group_that_misses_its_slo_fails_the_run(tmp_path: Path) -> None:
    """Its own limit counts; its folder has its own verdict, and the run's has both."""
    folder = two_groups(tmp_path, reaction_seconds=1)

    verdict = rejudge_run(folder)

    assert folder.second is not None
    own = written_of_second_group(folder.second)
    assert (verdict.status, own.status) == ("fail", "fail")
    assert verdict == written_of_second_group(folder)
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
    assert written_of_second_group(folder.second).status == "undetermined"
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
