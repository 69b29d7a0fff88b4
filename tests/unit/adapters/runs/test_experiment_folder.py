"""The file of kept runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.compared_runs import write_run

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.errors import NotReady


def test_a_run_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    """Each kept file is equal: JSON as data, YAML as its text with its comments."""
    run = write_run(tmp_path, "a")
    run.write_text(run.scenario, "# why\n" + run.read_text(run.scenario))
    run.write_text(run.policy, "kind: ScaledObject # why\n")
    run.write_json(run.accounting, {"lost": 0})
    kept = ExperimentFolder(tmp_path / "kept")

    kept.keep(run, {"pair": 1})

    (found,) = kept.runs()
    assert found.record == {"pair": 1}
    with found.unpacked() as again:
        for file in (run.manifest, run.measures, run.verdict, run.accounting):
            assert again.read_json(file.name) == run.read_json(file)
        for file in (run.scenario, run.policy):
            assert again.read_text(file.name) == run.read_text(file)


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    """In whichever order they were kept, and also when one is kept twice."""
    runs = [write_run(tmp_path, name) for name in ("a", "b")]
    one, other = ExperimentFolder(tmp_path / "one"), ExperimentFolder(tmp_path / "other")
    for run in runs:
        one.keep(run, {})
    for run in (*reversed(runs), runs[0]):
        other.keep(run, {})

    assert one.kept.read_bytes() == other.kept.read_bytes()
    assert [run.run_id for run in one.runs()] == ["a", "b"]


def test_a_crash_loses_no_earlier_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file with the new run takes the place of the old one only when it is whole."""
    kept = ExperimentFolder(tmp_path / "kept")
    kept.keep(write_run(tmp_path, "a"), {})
    second = write_run(tmp_path, "b")

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        kept.keep(second, {})

    assert [run.run_id for run in kept.runs()] == ["a"]


def test_a_run_without_a_verdict_is_not_kept(tmp_path: Path) -> None:
    """It is missing as before."""
    run = write_run(tmp_path, "a")
    run.verdict.unlink()
    kept = ExperimentFolder(tmp_path / "kept")

    with pytest.raises(NotReady, match=r"verdict\.json"):
        kept.keep(run, {})
    assert kept.runs() == []
