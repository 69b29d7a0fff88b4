"""Old run folders go, wanted ones stay; nights are compared."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.fakes.nights import rehearse, write_night
from tests.fakes.run_folder_builder import quick_spike_run
from tests.unit.plugins.conftest import SCENARIO, World

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.cluster.lease import longest_run_seconds
from lagbench.core.compare.cell_identity import content_digest
from lagbench.errors import NotReady, WrongInput
from lagbench.project import PROJECT_ROOT
from lagbench.results.cell_run import CellRun, read_scenario
from lagbench.results.gate import COMPARISON_FILE, DAY_NS, tidy_run_folders
from lagbench.results.measure_run import judge_run, measure_run, record_check
from lagbench_airflow import bench_life, run_lookup
from lagbench_airflow import nights as rehearsal
from lagbench_airflow.nights import cells_of_night
from lagbench_airflow.operators.start_companions import CellOperator
from lagbench_airflow.params import MORE_CELLS
from lagbench_airflow.run_lookup import NIGHTLY_DAG, SCENARIO_DAG, folder_of_page
from lagbench_airflow.task_life import TaskKilled, ends_when_killed

from airflow.dag_processing.dagbag import DagBag  # isort: skip
from lagbench.core.measures.checks import Check
from lagbench.core.verdict.verdict import Verdict
from lagbench_airflow.operators.verdict import (
    EVENT_FIELDS,
    VERDICTS,
    ReconcileCheckOperator,
    RunRebalancesCheckOperator,
    VerdictOperator,
)

NOW = 100 * DAY_NS
CHECKED_BY: dict[Any, str] = {
    RunRebalancesCheckOperator: "rebalance_count_check",
    ReconcileCheckOperator: "reconcile_check",
    VerdictOperator: "verdict",
}


def make_run(root: Path, run_id: str, *, age_days: int, verdict: str | None, **more: Any) -> None:
    """Make a run folder of some age."""
    folder = RunFolder.create(run_id, root)
    manifest = {"scenario": "s", "policy": "p", "fidelity": "processes"}
    folder.write_json(folder.manifest, manifest | {"created_at": NOW - age_days * DAY_NS} | more)
    folder.write_json(folder.conf, {"dag_run": f"dag-run-of-{run_id}"})
    if verdict is not None:
        folder.write_json(folder.verdict, {"status": verdict})


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a runs folder with a bit of everything."""
    for run_id, age_days, verdict in (
        ("old-pass", 50, "pass"),
        ("old-fail", 50, "fail"),
        ("old-crash", 50, None),
        ("today", 0, "undetermined"),
    ):
        make_run(tmp_path, run_id, age_days=age_days, verdict=verdict)
    (tmp_path / "not-ours").mkdir()
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("including_failed", "gone"),
    [(False, ["old-pass"]), (True, ["old-crash", "old-fail", "old-pass"])],
)
def test_only_old_runs_go(root: Path, including_failed: bool, gone: list[str]) -> None:
    """A failed run is kept, unless it is asked for; what is not ours never goes."""
    deleted = tidy_run_folders(keep_days=30, including_failed=including_failed, root=root, now=NOW)

    assert sorted(deleted) == gone
    left = {path.name for path in root.iterdir()}
    assert not left & set(gone)
    assert left >= {"not-ours", "today"}


def test_a_run_in_progress_is_never_tidied_away(root: Path) -> None:
    """However few days are kept: no verdict, or no report yet, within what the run may take."""
    for run_id, verdict in (("runs-now", None), ("is-judged-now", "fail"), ("has-ended", "fail")):
        make_run(root, run_id, age_days=0, verdict=verdict)
        folder = RunFolder(root / run_id)
        folder.write_text(folder.scenario, yaml.safe_dump(SCENARIO))
    RunFolder(root / "has-ended").report.write_text("<html>")
    of_scenario = longest_run_seconds(read_scenario(RunFolder(root / "runs-now"))) * 1_000_000_000

    def tidy(now: int) -> list[str]:
        return tidy_run_folders(keep_days=0, including_failed=True, root=root, now=now)

    ended = tidy(NOW + of_scenario - 1)
    assert "has-ended" in ended
    assert not {"runs-now", "is-judged-now"} & set(ended)

    assert {"runs-now", "is-judged-now"} <= set(tidy(NOW + of_scenario))


def test_a_night_is_put_through_the_gate(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Dag run names the folder; the record and the report with it are written there."""
    content = quick_spike_run()
    cell = {"policy": content_digest("policy"), "target": content_digest("embedded")}
    for number in (1, 2):
        content.run_id = f"night-{number}"
        content.manifest |= {"created_at": NOW + number, "cell": cell}
        content.manifest |= {"conf": {"dag_run": f"rehearsal__{number}"}}
        folder = content.write(root)
        judge_run(folder)
        folder.write_json(folder.verdict, folder.read_json(folder.verdict) | {"status": "pass"})

    first, second = (rehearsal.compare_with_last_pass(f"rehearsal__{n}") for n in (1, 2))

    assert (first["status"], first["baseline"]) == ("baseline", None)
    assert (second["status"], second["baseline"]) == ("within", "night-1")
    assert RunFolder(root / "night-2").read_json(COMPARISON_FILE)["status"] == "within"
    assert "baseline, night-1" in RunFolder(root / "night-2").report.read_text()


def test_the_references_of_the_gate_are_kept(tmp_path: Path) -> None:
    """The baseline and the newest night that was no regression stay, whatever their age."""
    rehearse(tmp_path, "baseline", created_at=1)
    rehearse(tmp_path, "between", created_at=2)
    rehearse(tmp_path, "newest", created_at=3)
    write_night(tmp_path, "by-hand", created_at=4)

    deleted = tidy_run_folders(keep_days=30, including_failed=True, root=tmp_path, now=NOW)

    assert deleted == ["between", "by-hand"]


def test_a_night_without_a_run_is_reported(root: Path) -> None:
    """A Dag run that left no folder here cannot be compared."""
    with pytest.raises(NotReady, match="nobody"):
        rehearsal.compare_with_last_pass("nobody")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the runs folder, with the two tries of a cleared night."""
    monkeypatch.setattr(run_lookup, "runs_root", lambda: tmp_path)
    for number, dag_run in enumerate(("rehearsal__night", "rehearsal__night__try_2"), start=1):
        folder = tmp_path / f"try-{number}"
        folder.mkdir()
        (folder / "conf.json").write_text(json.dumps({"dag_run": dag_run}))
        os.utime(folder / "conf.json", (1_000 * number, 1_000 * number))
    return tmp_path


def test_the_newest_try_is_the_one_that_was_planned_last(runs: Path) -> None:
    """A file that is written again changes its folder's time, and not when the run was planned.

    The history lies beside the folders, and its part is renamed at any time.
    """
    (runs / "try-1" / "report.html").write_text("")
    (runs / "history.parquet").write_text("")
    found = folder_of_page(NIGHTLY_DAG, "night")

    assert found is not None
    assert found.path.name == "try-2"
    assert folder_of_page(NIGHTLY_DAG, "another") is None


@pytest.mark.parametrize("dag_id", ["bench_lifecycle", "experiment_aa_quick_spike", "my_dag"])
def test_a_run_of_another_dag_has_no_run_folder(runs: Path, dag_id: str) -> None:
    """Its id may be that of a run of scenario_run: ids are unique within a Dag only."""
    assert folder_of_page(SCENARIO_DAG, "rehearsal__night") is not None
    assert folder_of_page(dag_id, "rehearsal__night") is None


@pytest.fixture
def on_kill() -> Iterator[list[str]]:
    """Stand in for the handler of Airflow's task runner, which calls ``on_kill`` and returns."""
    calls: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: calls.append("on_kill"))
    yield calls
    signal.signal(signal.SIGTERM, before)


class ApplyWhenKilled(CellOperator):
    """Is killed just before it applies an object."""

    is_measured = False

    def act(self, cell: CellRun, context: Any) -> dict[str, Any]:
        """Apply an object."""
        signal.raise_signal(signal.SIGTERM)
        context["applied"].append("consumer")
        return {}


def states(world: World, phase: str) -> list[str]:
    """Return what the run's phases say of one."""
    lines = map(json.loads, world.folder.read_text(world.folder.phases).splitlines())
    return [line["state"] for line in lines if line["name"] == phase]


def test_a_killed_operator_creates_nothing_more(world: World, on_kill: list[str]) -> None:
    """It calls its hook, ends there, and its phase has failed."""
    applied: list[str] = []
    operator = ApplyWhenKilled(task_id="apply", run_folder=str(world.folder.path))

    with pytest.raises(TaskKilled):
        operator.execute({"applied": applied})  # type: ignore[typeddict-unknown-key]
    assert (applied, on_kill) == ([], ["on_kill"])
    assert states(world, "apply") == ["started", "failed"]


@pytest.mark.parametrize(
    ("name", "work"), [("bench_up", "bring_bench_up"), ("create_topics", "create_run_topics")]
)
def test_a_killed_setup_creates_nothing_more(
    world: World, on_kill: list[str], monkeypatch: pytest.MonkeyPatch, name: str, work: str
) -> None:
    """The setups are functions, not operators, and end as those do."""
    cell = DagBag(str(PROJECT_ROOT / "dags" / "scenario_run.py")).dags["scenario_run"]
    monkeypatch.setattr(bench_life, work, lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    setup: Any = cell.get_task(name)

    with pytest.raises(TaskKilled):
        setup.python_callable(run_folder=str(world.folder.path))
    assert on_kill == ["on_kill"]
    assert states(world, name) == ["started", "failed"]


def test_only_the_first_signal_ends_the_body(on_kill: list[str]) -> None:
    """A second one does not cut off how the body ends; then Airflow's handler is in place again."""
    airflows = signal.getsignal(signal.SIGTERM)
    ended = []

    def body() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            ended.append("in order")

    with pytest.raises(TaskKilled), ends_when_killed():
        body()

    assert (ended, on_kill) == (["in order"], ["on_kill", "on_kill"])
    assert signal.getsignal(signal.SIGTERM) is airflows


@pytest.mark.parametrize(
    ("lost", "left_out", "status"),
    [
        (0, None, "pass"),
        (1, None, "fail"),
        (0, RunRebalancesCheckOperator, "undetermined"),
        (0, ReconcileCheckOperator, "undetermined"),
        (1, ReconcileCheckOperator, "fail"),
    ],
)
def test_the_verdict_reads_the_measured_run_and_its_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int, left_out: Any, status: str
) -> None:
    """A claim that does not hold fails no task; a check that did not run leaves no pass."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    folder: RunFolder = quick_spike_run().write(tmp_path)
    done = {}
    for kind, name in CHECKED_BY.items():
        task = kind(task_id=name, run_folder=str(folder.path))
        done[name] = {} if kind is left_out else task.execute({})
        if kind is RunRebalancesCheckOperator:  # which measures the run
            measures = measure_run(folder).model_dump(mode="json")
            measures["accounting"]["lost"] = lost
            folder.write_json(folder.measures, measures)

    found, judged = folder.read_json("checks.json"), done["verdict"]
    assert found == {name: done[name] for name in found}
    assert judged["checks"] == {name: check["holds"] for name, check in found.items()}
    assert folder.read_model(folder.verdict, Verdict).status == judged["status"] == status
    if left_out is None:
        assert found["rebalance_count_check"]["holds"] is True
        assert found["reconcile_check"]["holds"] is (lost == 0)
        assert found["reconcile_check"]["against"] == ({"lost": lost} if lost else {})
    else:
        missing = f"{CHECKED_BY[left_out]} has no result"
        assert any(missing in reason for reason in judged["reasons"])


def test_a_verdict_is_an_event_of_its_asset(tmp_path: Path) -> None:
    """Other Dags read its cell, its status and its numbers there."""
    folder: RunFolder = quick_spike_run().write(tmp_path)
    judge_run(folder)
    event = SimpleNamespace(extra={})
    events = type("Events", (), {"__getitem__": lambda _, asset: event})()
    task = VerdictOperator(task_id="verdict", run_folder=str(folder.path), outlets=[VERDICTS])

    result = task.execute({"outlet_events": events})

    manifest = folder.read_json(folder.manifest)
    assert event.extra["status"] == result["status"]
    assert event.extra["report"] == result["report"] == f"/bench/runs/{folder.run_id}/report.html"
    assert {name: event.extra[name] for name in EVENT_FIELDS} == {
        name: manifest.get(name) for name in EVENT_FIELDS
    }
    assert event.extra["measures"]


def test_a_check_of_another_accounting_is_no_pass(tmp_path: Path) -> None:
    """It has a reason that the measures do not have; the run's second judgement says the same."""
    folder: RunFolder = quick_spike_run().write(tmp_path)
    judge_run(folder)
    for name in ("rebalance_count_check", "reconcile_check"):
        record_check(folder, name, Check(True, {}, ()))
    assert judge_run(folder, reads_checks=True).status == "pass"

    record_check(folder, "reconcile_check", Check(False, {}, ("the log is empty",)))

    verdict = judge_run(folder, reads_checks=True)
    assert (verdict.status, verdict.reasons) == ("undetermined", ("the log is empty",))


def test_a_night_has_the_cells_of_its_lines() -> None:
    """Each with its policy, if it has one; seed and overrides are those of all."""
    more = "bursty lag-fast-up-slow-down\n\n  hello \n"
    params = {"scenario": "quick_spike", "policy": None, "seed": 0, MORE_CELLS: more}
    shared = {"seed": 0, "keep_bench": False, "ask": False}

    assert cells_of_night({**params, "overrides": ""}) == [
        {"scenario": "quick_spike", "policy": "", **shared},
        {"scenario": "bursty", "policy": "lag-fast-up-slow-down", **shared},
        {"scenario": "hello", "policy": "", **shared},
    ]


@pytest.mark.parametrize(
    "more", ["hello a b", "quick_spike", "hello\nhello", "\n".join(map(str, range(20)))]
)
def test_a_line_that_is_no_new_cell_is_refused(more: str) -> None:
    """Too many words, a cell that the night has, more cells than a night takes."""
    with pytest.raises(WrongInput, check=lambda error: error.field == MORE_CELLS):
        cells_of_night({"scenario": "quick_spike", MORE_CELLS: more})
