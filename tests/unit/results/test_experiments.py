"""An execution of an experiment: kept run by run, judged at its end."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.experiments import experiment, write_run

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.adapters.runs.run_folder import list_runs
from lagbench.core.compare.experiment import Experiment, PlannedRun
from lagbench.core.compare.experiment_result import (
    ExperimentResult,
    decidability_note,
)
from lagbench.core.compare.shown_claims import StepCount
from lagbench.core.measures.rate_dip import NOTHING_TO_DO
from lagbench.errors import NotReady, WrongInput
from lagbench.results.executions import (
    conclude,
    find_unfinished,
    read_progress,
    read_result,
    record_run,
    require_same,
    start_execution,
)

HOUR = 3_600_000_000_000
REACTION = {"reaction_seconds": {"absolute": 5.0}}


def made(**changed: Any) -> Experiment:
    """Return an experiment that compares the reaction."""
    return experiment(**{"bounds": REACTION} | changed)


def started(root: Path, what: Experiment | None = None) -> ExperimentFolder:
    """Start an execution."""
    return start_execution(
        what or made(), target="embedded", started_by="command", now=1, root=root
    )


def play(
    root: Path,
    folder: ExperimentFolder,
    how: Callable[[PlannedRun], dict[str, Any]],
) -> ExperimentResult:
    """Write and record each missing run as ``how`` says, then conclude."""
    while missing := read_progress(folder).missing:
        run = missing[0]
        attempt = len(read_progress(folder).attempts(run)) + 1
        record_run(folder, run, write_run(root, run, attempt=attempt, **how(run)), now=2)
    return conclude(folder, root=root)


def later_by(seconds: float) -> Callable[[PlannedRun], dict[str, Any]]:
    """Return runs whose eager cell reacts that much later, more or less, at equal phase."""

    def how(run: PlannedRun) -> dict[str, Any]:
        reaction = 10.0 + run.pair + (seconds + 0.1 * run.pair) * (run.cell == "eager")
        return {"reaction": reaction, "phase": run.hpa_sync_at_seconds}

    return how


def test_a_real_difference_is_found_and_shown(tmp_path: Path) -> None:
    """Six pairs 30 s apart differ beyond the bound of 5 s; the page has each of the twelve runs."""
    folder = started(tmp_path)
    result = play(tmp_path, folder, later_by(30))
    page = folder.page.read_text()

    found = result.comparisons[0].difference("reaction_seconds")
    assert found is not None
    assert (found.verdict, found.n) == ("differs", 6)
    assert found.difference == pytest.approx(30.35)
    assert any(note.endswith(": equal in pairs 1, 2, 3, 4, 5, 6") for note in result.notes)
    assert not result.has_gap
    assert read_result(folder) == result
    assert "Does it differ?" in page
    assert "| differs |" in page
    assert all(f"| {run.run_id} |" in page for run in result.runs)
    # A finished execution does not go on: the next call makes new runs.
    assert find_unfinished(made(), target="embedded", root=tmp_path) is None


def test_a_stopped_execution_goes_on(tmp_path: Path) -> None:
    """The recorded runs are kept, even without their run folders; others are still missing."""
    folder = started(tmp_path)
    assert list_runs(tmp_path) == []  # an execution is no run
    run = read_progress(folder).missing[0]
    of_run = write_run(tmp_path, run)
    record_run(folder, run, of_run, now=2)
    shutil.rmtree(of_run.path)

    again = find_unfinished(made(), target="embedded", root=tmp_path)

    assert again == folder
    assert read_progress(folder).done == 1
    assert run not in read_progress(folder).missing
    with pytest.raises(NotReady, match="11 runs"):
        conclude(folder)


@pytest.mark.parametrize(
    ("what", "options"),
    [
        (made(order_seed=2), {"target": "embedded"}),
        (made(), {"target": "cluster 1"}),
        (made(), {"target": "embedded", "pairs": 8}),
    ],
)
def test_another_experiment_does_not_go_on(
    tmp_path: Path, what: Experiment, options: dict[str, Any]
) -> None:
    """A changed file, another target or number of pairs starts anew; a changed text does not."""
    folder = started(tmp_path)

    assert find_unfinished(what, root=tmp_path, **options) is None
    assert find_unfinished(made(title="T"), target="embedded", root=tmp_path) == folder


def test_an_execution_goes_on_after_a_setting_was_added(tmp_path: Path) -> None:
    """What was started before lagbench knew a setting has its default."""
    folder = started(tmp_path)
    before = folder.files.read_json(folder.experiment)
    del before["kind"]
    folder.files.write_json(folder.experiment, before)

    assert find_unfinished(made(), target="embedded", root=tmp_path) == folder
    require_same(folder, made(), target="embedded")
    with pytest.raises(WrongInput, match="settings"):
        require_same(folder, made(order_seed=2), target="embedded")


def test_the_measures_of_a_second_group_are_kept(tmp_path: Path) -> None:
    """A figure of the group beside the first one can be traced after the run folder is gone."""
    folder, runs = started(tmp_path), tmp_path / "runs"
    planned = read_progress(folder).schedule.runs[0]
    run = write_run(runs, planned)
    second = run.make_second()
    for file in (run.measures, run.verdict, run.manifest, run.scenario):
        second.write_text(file.name, run.read_text(file))

    record_run(folder, planned, run, now=2)

    (kept,) = folder.runs()
    assert kept.second is not None
    assert kept.second["measures"] == run.read_json("measures.json")


def test_pairs_are_left_out_with_a_reason(tmp_path: Path) -> None:
    """A run that is undetermined twice is no result, and two machines are not compared.

    A cell that is meant to fail is a result when it does.
    """

    def how(run: PlannedRun) -> dict[str, Any]:
        is_gap = run.key == "pair_3_calm"
        verdict = "undetermined" if is_gap else "fail"
        return {"cores": 4 if run.key == "pair_2_eager" else 2, "verdict": verdict}

    result = play(tmp_path, started(tmp_path), how)

    assert result.has_gap
    assert result.comparisons[0].pairs == (1, 4, 5, 6)
    assert result.comparisons[0].left_out[0] == "pair 2: machine.cores: 2 against 4"
    assert result.comparisons[0].left_out[1].startswith("pair 3: ")
    assert any("machine.cores: 2, 4" in note for note in result.notes)
    assert any(re.search(r"pair_3_calm .* 2 times \(why\)", note) for note in result.notes)
    assert next(cell for cell in result.cells if cell.name == "eager").is_as_expected
    assert [note.split()[0] for note in result.notes if "5 failed" in note] == ["calm"]


def test_phases_and_pauses_that_differ_are_said(tmp_path: Path) -> None:
    """A pair at two phases, one with an unknown phase, and one that was finished the next day."""

    def how(run: PlannedRun) -> dict[str, Any]:
        phase: float | None = 0.2 if run.cell == "calm" else 14.8
        if run.key == "pair_1_eager":
            phase = 7.0
        began_at = 20 * HOUR if run.key == "pair_4_eager" else 1
        return {"phase": None if run.key == "pair_2_eager" else phase, "began_at": began_at}

    notes = play(tmp_path, started(tmp_path), how).notes

    ends = {note.rpartition(": ")[2] for note in notes}
    assert ends >= {"equal in pairs 3, 4, 5, 6", "NOT equal in pair 1", "not recorded in pair 2"}
    assert any(re.search("pair 4: .* 1,200 min", note) for note in notes)


@pytest.mark.parametrize(("pause", "notes"), [(0, 0), (HOUR, 1)])
def test_the_runs_between_two_others_are_no_pause(tmp_path: Path, pause: int, notes: int) -> None:
    """Three runs of an hour each follow each other, whatever the first and the last are apart.

    All have the same values, so nothing is drawn, and an earlier picture is not theirs.
    """
    cells = [{"name": "calm"}, {"name": "other"}, {"name": "eager"}]
    folder = started(tmp_path, made(cells=cells))
    folder.figure.write_text("of an earlier judgement")
    now = 1
    for place, run in enumerate(read_progress(folder).missing):
        began_at = now + (pause if place == 2 else 1)  # the last of the first pair
        now = began_at + HOUR
        record_run(folder, run, write_run(tmp_path, run, began_at=began_at), now=now)

    found = [note for note in conclude(folder, root=tmp_path).notes if "back to back" in note]

    assert len(found) == notes
    assert all(" 60 min " in note for note in found)
    assert not folder.figure.exists()


def test_the_result_tells_the_cluster_and_leaves_a_pair_of_two_versions_out(
    tmp_path: Path,
) -> None:
    """The rig has one name, whatever Kubernetes it runs."""
    folder = started(tmp_path)
    for run in read_progress(folder).missing:
        made = write_run(tmp_path, run)
        made.write_json(made.measures, {**made.read_json(made.measures), "fidelity": "kubernetes"})
        version = "v1.34.4" if run.key == "pair_2_eager" else "v1.37.2"
        cluster = {"cluster": {"kubernetes": version}, "versions": {"keda": "2.21.0"}}
        made.update_manifest(fidelity="kubernetes", **cluster)
        record_run(folder, run, made, now=2)
    result = conclude(folder, root=tmp_path)

    assert "fidelity kubernetes: Kubernetes v1.37.2 with KEDA 2.21.0" in result.notes
    (compared,) = result.comparisons
    assert 2 not in compared.pairs
    assert "cluster.kubernetes" in compared.left_out[0]


def test_the_result_tells_by_which_rules_of_kubernetes_the_embedded_bench_scaled(
    tmp_path: Path,
) -> None:
    """Two policies may name two versions; runs that did not record theirs have no note."""
    folder = started(tmp_path)
    for run in read_progress(folder).missing:
        made = write_run(tmp_path, run)
        known = made.read_json(made.manifest).get("versions", {})
        rules = {"eager": {"kubernetes-rules": "1.34"}}.get(run.cell, {})
        made.update_manifest(versions=known | rules)
        record_run(folder, run, made, now=2)
    result = conclude(folder, root=tmp_path)

    assert [note for note in result.notes if note.startswith("fidelity")] == [
        "fidelity processes: the rules of Kubernetes 1.34"
    ]
    assert all(len(compared.pairs) == result.pairs for compared in result.comparisons)


def test_the_same_cell_twice_renews_the_noise_floor(tmp_path: Path) -> None:
    """The floor is kept in the runs folder, and a later experiment shows it beside its result.

    With a gap five pairs are left, too few; a claim on every run may stand beside a difference.
    """
    same = made(name="aa", cells=[{"name": "a"}, {"name": "b"}])

    def how(run: PlannedRun, gap: str = "") -> dict[str, Any]:
        reaction = 10.0 + run.pair * (run.cell == "b")
        return {"reaction": reaction, "verdict": "undetermined" if run.key == gap else "pass"}

    few = play(tmp_path / "few", started(tmp_path / "few", same), lambda r: how(r, "pair_1_a"))
    assert few.noise is None
    assert "6 or more" in few.notes[0]

    found = play(tmp_path, started(tmp_path, same), how)
    cells = [
        {"name": "calm", "shows": {"reaction_seconds": {"below": 90}}},
        {"name": "eager", "overrides": {"consumer.balancer": "range"}},
    ]
    shown = play(tmp_path, started(tmp_path, made(cells=cells)), later_by(30))
    assert [(claim.verdict, len(claim.values)) for claim in shown.shown] == [("shown", 6)]
    assert shown.comparisons[0].difference("reaction_seconds") is not None

    assert found.kind == "noise floor"
    assert found.noise is not None
    assert found.noise == shown.noise
    assert shown.notes[0] == f"noise floor: {found.noise.text}"
    assert found.noise.widths["reaction_seconds"] > 6  # the largest difference


def identity(calm: Any, eager: Any, **changed: Any) -> Experiment:
    """Return an experiment of one pair in which each cell shows its number of lost messages."""
    cells = [
        {"name": "calm", "shows": {"lost": calm}},
        {"name": "eager", "shows": {"lost": eager}},
    ]
    return experiment(**{"kind": "identity", "pairs": 1, "cells": cells, **changed})


UNMEASURED = [{"name": "calm", "shows": {"first_event_wait_seconds": {"at_most": 60}}}]


@pytest.mark.parametrize(
    ("what", "gap", "shown"),
    [
        # A claim that a run meets is shown, one that it misses is refuted.
        (identity(0, {"above": 0}), "", [("shown", (0.0,)), ("refuted", (0.0,))]),
        # A gap shows nothing; a refuted claim stays refuted, whatever the missing run had.
        (
            identity(0, {"above": 0}, pairs=2),
            "pair_1",
            [("undetermined", (None, 0.0)), ("refuted", (None, 0.0))],
        ),
        # The runs have no idle stretch, so the wait after it is missing, which is not 0.
        (identity(0, 0, cells=UNMEASURED), "", [("undetermined", (None,))]),
    ],
)
def test_an_identity_experiment_shows_claims_and_compares_nothing(
    tmp_path: Path, what: Experiment, gap: str, shown: list[tuple[str, tuple[float | None, ...]]]
) -> None:
    """One pair is enough for it."""

    def how(run: PlannedRun) -> dict[str, Any]:
        return {"verdict": "undetermined" if gap and run.key.startswith(gap) else "pass"}

    folder = started(tmp_path, what)
    result = play(tmp_path, folder, how)

    assert (result.kind, result.comparisons, result.noise) == ("identity", (), None)
    assert [(found.verdict, found.values) for found in result.shown] == shown
    assert result.has_gap is any(verdict == "undetermined" for verdict, _ in shown)
    for found in result.shown:
        values = ", ".join("–" if value is None else f"{value:.0f}" for value in found.values)
        assert f"| {found.expected} | {values} | {found.verdict} |" in folder.page.read_text()


@pytest.mark.parametrize(
    ("claim", "step", "counted", "verdict"),
    [
        # One step of three that dips is enough, although their mean is far below.
        (
            "scale_up_dip_percent",
            {"dip_percent": 25.0, "dip_noise_percent": 1.0},
            (2, 1, 0),
            "refuted",
        ),
        # A step within its noise is no pass, and without any known noise neither.
        ("scale_up_dip_percent", {"dip_percent": 25.0, "dip_noise_percent": 8.0}, (2, 0, 1), ""),
        ("scale_up_dip_percent", {"dip_percent": 25.0, "dip_noise_percent": None}, (2, 0, 1), ""),
        (
            "scale_up_dip_percent",
            {"dip_percent": 19.0, "dip_noise_percent": 8.0},
            (3, 0, 0),
            "shown",
        ),
        # One that was not measured is open, and one of an idle group is none.
        ("scale_up_dip_percent", {"dip_percent": None, "reason": "why"}, (2, 0, 1), ""),
        (
            "scale_up_dip_percent",
            {"dip_percent": None, "reason": NOTHING_TO_DO},
            (2, 0, 0),
            "shown",
        ),
        # Steps down have a claim of their own; one on both has all of the run's five.
        (
            "scale_down_dip_percent",
            {"dip_percent": 25.0, "dip_noise_percent": 1.0},
            (2, 0, 0),
            "shown",
        ),
        (
            "rebalance_dip_percent",
            {"dip_percent": 25.0, "dip_noise_percent": 1.0},
            (4, 1, 0),
            "refuted",
        ),
        # Not seen to recover for 30 s is not below 20 s.
        (
            "scale_up_recovery_seconds",
            {"dip_percent": 40.0, "recovery_seconds": None, "observed_seconds": 30.0},
            (2, 1, 0),
            "refuted",
        ),
    ],
)
def test_a_claim_on_steps_holds_for_each_step(
    tmp_path: Path, claim: str, step: dict[str, Any], counted: tuple[int, ...], verdict: str
) -> None:
    """It takes each step with its precision, not their mean."""
    cells = [{"name": "calm", "shows": {claim: {"below": 20}}}]
    folder = started(tmp_path, identity(0, 0, cells=cells))
    (run,) = read_progress(folder).missing
    written = write_run(tmp_path, run)
    measures = written.read_json(written.measures)
    episode = next(e for e in measures["rebalances"]["episodes"] if e["trigger"] == "scale_up")
    episode.update(step)
    written.write_json(written.measures, measures)
    record_run(folder, run, written, now=2)

    (found,) = conclude(folder, root=tmp_path).shown

    assert found.steps is not None
    assert tuple(found.steps.model_dump().values()) == counted
    assert found.verdict == (verdict or "undetermined")
    assert f"{counted[0]} of {sum(counted)} steps" in folder.page.read_text()


def test_a_claim_on_steps_of_a_run_without_one_is_undetermined(tmp_path: Path) -> None:
    """Nothing dipped, because nothing was scaled: that shows nothing."""
    cells = [{"name": "calm", "shows": {"action_dip_percent": {"below": 20}}}]
    folder = started(tmp_path, identity(0, 0, cells=cells))

    (found,) = play(tmp_path, folder, lambda _run: {}).shown

    assert (found.verdict, found.steps) == (
        "undetermined",
        StepCount(met=0, missed=0, undetermined=1),
    )


@pytest.mark.parametrize(
    ("pairs", "measures", "text"),
    [
        (6, 1, None),
        (6, 2, "1 measure at most"),
        (8, 6, None),
        (8, 7, "6 measures at most"),
    ],
)
def test_too_many_measures_for_the_pairs_are_said(
    pairs: int, measures: int, text: str | None
) -> None:
    """Holm's correction multiplies the smallest p of the pairs; a noise floor needs no p."""
    names = ["reaction_seconds", "drain_seconds", "flips", "pod_minutes", "peak_lag_records"]
    names += ["standstill_seconds", "time_lag_p95_seconds", "time_lag_p99_seconds"]
    bounds = {name: {"absolute": 1.0} for name in (*names[:measures], "lost")}
    same = made(bounds=bounds, cells=[{"name": "a"}, {"name": "b"}])

    note = decidability_note(made(bounds=bounds), pairs)
    assert note is None if text is None else text in str(note)
    assert decidability_note(same, pairs) is None
