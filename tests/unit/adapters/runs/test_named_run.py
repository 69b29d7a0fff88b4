"""The run that a command names: by its id in the runs folder, or as FILE#RUN."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.fakes.compared_runs import write_run

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.adapters.runs.named_run import find, opened
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.errors import WrongInput


def made(root: Path, run_id: str, created_at: int = 1) -> None:
    """Write a run with a manifest."""
    RunFolder.create(run_id, root).update_manifest(created_at=created_at)


@pytest.fixture
def kept(tmp_path: Path) -> ExperimentFolder:
    """Return a folder that keeps spike-1, spike-10 with a second group, and steady-1."""
    folder = ExperimentFolder(tmp_path / "kept")
    for name in ("spike-1", "spike-10", "steady-1"):
        run = write_run(tmp_path / "runs", name)
        if name == "spike-10":
            second = run.make_second()
            for file in (run.measures, run.verdict, run.manifest, run.scenario):
                second.write_text(file.name, run.read_text(file))
        folder.keep(run, {"run_id": name})
    return folder


def test_a_run_is_found_by_id_prefix_and_latest(tmp_path: Path) -> None:
    """A whole id wins over being the beginning of another."""
    made(tmp_path, "spike-1", 1)
    made(tmp_path, "spike-10", 3)
    made(tmp_path, "steady-1", 2)

    assert find("spike-1", tmp_path).run_id == "spike-1"
    assert find("st", tmp_path).run_id == "steady-1"
    assert find("latest", tmp_path).run_id == "spike-10"


@pytest.mark.parametrize("wanted", ["spike", "x", ""])
def test_an_ambiguous_or_unknown_run_lists_candidates(tmp_path: Path, wanted: str) -> None:
    """So the user can choose."""
    made(tmp_path, "spike-1")
    made(tmp_path, "spike-2")

    with pytest.raises(WrongInput) as refused:
        find(wanted, tmp_path)
    assert refused.value.allowed == "one of spike-1, spike-2"


@pytest.mark.parametrize("wanted", ["a", "latest"])
def test_without_any_run_the_message_says_so(tmp_path: Path, wanted: str) -> None:
    """Also when the root does not exist yet."""
    with pytest.raises(WrongInput, match="there is none yet"):
        find(wanted, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("wanted", "reference"),
    [
        ("spike-1", "spike-1"),
        ("st", "steady-1"),
        ("spike-10/second_group", "spike-10/second_group"),
    ],
)
def test_a_kept_run_is_opened_as_a_folder(
    kept: ExperimentFolder, wanted: str, reference: str
) -> None:
    """Its files are those of the run, and are gone afterwards."""
    with opened(f"{kept.kept}#{wanted}") as run:
        assert run.reference == reference
        measures = run.read_json(run.measures)
    assert measures["run_id"] == reference.partition("/")[0]
    assert not run.path.exists()


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        ("spike", "one of spike-1, spike-10"),
        ("x", "one of spike-1, spike-10, steady-1"),
        ("", "one of spike-1, spike-10, steady-1"),
        ("steady-1/second_group", "a run with a second group"),
        ("spike-10/third", "a run with a second group"),
    ],
)
def test_a_wrong_kept_run_is_refused(kept: ExperimentFolder, wanted: str, allowed: str) -> None:
    """The refusal has the name as it was given, and the candidates."""
    name = f"{kept.kept}#{wanted}"
    with pytest.raises(WrongInput) as refused, opened(name):
        pass
    assert (refused.value.value, refused.value.allowed) == (name, allowed)


@pytest.mark.parametrize("content", [None, b"{}", b"\x1f\x8b\x08\x00"])
def test_a_wrong_file_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """One that is absent, is not gzip, or is torn."""
    file = tmp_path / "runs.jsonl.gz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(WrongInput) as refused, opened(f"{file}#a"):
        pass
    assert refused.value.value == str(file)


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        '{"run_id": 1}',
        '{"run_id": "../a"}',
        '{"run_id": "a", "scenario": {}}',
        '{"run_id": "a", "measures": "text"}',
        '{"run_id": "a", "second_group": 3}',
        '{"run_id": "a", "second_group": {"verdict": []}}',
        '{"run_id": "a", "record": []}',
        '{"run_id": "a", "measures": {"x": NaN}}',
    ],
)
def test_a_line_of_another_shape_is_refused(tmp_path: Path, line: str) -> None:
    """Nothing is unpacked of a file that somebody else has written."""
    file = tmp_path / "runs.jsonl.gz"
    file.write_bytes(gzip.compress(line.encode()))

    with pytest.raises(WrongInput), opened(f"{file}#a", kept_in=tmp_path / "kept"):
        pass
    assert not (tmp_path / "kept").exists()


def test_a_report_folder_holds_one_run(kept: ExperimentFolder, tmp_path: Path) -> None:
    """What an earlier run of that name left there is not mixed with it."""
    stale = tmp_path / "pages" / "steady-1" / "prediction.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")

    with opened(f"{kept.kept}#steady-1", kept_in=tmp_path / "pages") as run:
        assert run.path == stale.parent
    assert not stale.exists()
