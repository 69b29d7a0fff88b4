"""The run folder and the list of runs."""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
from pathlib import Path

import confluent_kafka
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fakes.compared_runs import write_run

from lagbench.adapters.runs.experiment_folder import ExperimentFolder, find, opened
from lagbench.adapters.runs.run_folder import RunFolder, list_runs, runs_root
from lagbench.adapters.runs.run_manifest import add_versions, write_manifest
from lagbench.adapters.runs.topic_copies import Staging
from lagbench.errors import NotReady, WrongInput
from lagbench.project import PROJECT_ROOT


def made(root: Path, run_id: str, created_at: int = 1) -> RunFolder:
    """Return a run with a manifest."""
    folder = RunFolder.create(run_id, root)
    folder.update_manifest(created_at=created_at, scenario="s", policy="p", seed=7)
    return folder


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """By path and by name inside the folder; NaN is rejected, and the old file stays whole."""
    folder = RunFolder.create("a", tmp_path)

    folder.write_json("x.json", {"ü": [1, None]})
    with pytest.raises(ValueError, match="JSON compliant"):
        folder.write_json("x.json", {"v": float("nan")})
    with pytest.raises(UnicodeEncodeError):
        folder.write_text("x.json", "\ud800")

    assert folder.read_json(folder.path / "x.json") == {"ü": [1, None]}
    assert folder.read_json("x.json") == {"ü": [1, None]}
    assert sorted(path.name for path in folder.path.iterdir()) == ["logs", "tables", "x.json"]


def test_a_missing_or_broken_file_is_not_ready(tmp_path: Path) -> None:
    """The message names run and file, not the machine's path."""
    folder = RunFolder.create("a", tmp_path)
    folder.write_text("broken.json", "{")

    with pytest.raises(NotReady, match=r"^run a .*verdict\.json"):
        folder.read_json(folder.verdict)
    with pytest.raises(NotReady, match=r"^run a: broken\.json"):
        folder.read_json("broken.json")
    with pytest.raises(NotReady, match=r"scenario\.yaml"):
        folder.read_text(folder.scenario)


def test_the_manifest_is_merged(tmp_path: Path) -> None:
    """Fields of before stay; what later tasks find out replaces no version of plan_cell."""
    folder = made(tmp_path, "a")

    folder.update_manifest(stream_started_at=5, versions={"python": "3.11.7"})
    add_versions(folder, {"java": "17.0.17"})
    add_versions(folder, {"keda": "2.21.0"})

    manifest = folder.read_json(folder.manifest)
    assert (manifest["seed"], manifest["stream_started_at"]) == (7, 5)
    assert manifest["versions"] == {"python": "3.11.7", "java": "17.0.17", "keda": "2.21.0"}


def test_a_run_id_that_is_none_is_refused(tmp_path: Path) -> None:
    """Nothing is made, least of all outside the root."""
    with pytest.raises(WrongInput, match="run_id"):
        RunFolder.create("../x", tmp_path / "runs")

    assert list(tmp_path.iterdir()) == []


def test_runs_are_listed_by_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that died before it had a verdict, or a manifest that is broken.

    LAGBENCH_RUNS_DIR names the root, else it is runs in the project.
    """
    made(tmp_path, "b", 1)
    made(tmp_path, "a", 2).write_json("verdict.json", {"status": "pass"})
    broken = RunFolder.create("c", tmp_path)
    broken.write_text(broken.manifest, "{")

    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    assert runs_root() == tmp_path
    assert [(run.run_id, run.verdict) for run in list_runs()] == [
        ("c", None),
        ("b", None),
        ("a", "pass"),
    ]
    monkeypatch.delenv("LAGBENCH_RUNS_DIR")
    assert runs_root().name == "runs"


def test_the_manifest_names_versions_but_no_machine(tmp_path: Path) -> None:
    """Versions, seed and sizes are there; host, user and paths are not."""
    folder = RunFolder.create("a", tmp_path)

    manifest = write_manifest(
        folder,
        scenario="s",
        policy="p",
        seed=7,
        fidelity="processes",
        conf={"seed": 7},
        scenario_text="name: s\n",
        policy_text="kind: ScaledObject\n",
        created_at=5,
        versions={"kafka-broker": "4.3.1"},
    )

    assert folder.read_json(folder.manifest) == manifest
    sizes = {"cores", "speed", "memory_bytes", "processor", "system", "kernel", "architecture"}
    assert set(manifest["machine"]) == sizes
    assert platform.node() not in json.dumps(manifest["machine"])
    packages = {"python", "pyspark", "apache-airflow", "confluent-kafka", "librdkafka"}
    assert packages | {"kafka-broker"} <= set(manifest["versions"])
    assert manifest["versions"]["librdkafka"] == confluent_kafka.libversion()[0]
    lock = (PROJECT_ROOT / "requirements.txt").read_bytes()
    assert manifest["lock"] == {
        "file": "requirements.txt",
        "sha256": hashlib.sha256(lock).hexdigest(),
    }
    assert str(tmp_path) not in json.dumps(manifest)
    assert folder.read_text(folder.scenario) == "name: s\n"


RUN_ID = "run-1"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return a fenced run."""
    made = RunFolder.create(RUN_ID, tmp_path / "runs")
    made.write_json(made.fence, {"events": {"0": 1}})
    return made


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    """Return an empty place of the run."""
    return Staging.in_folder(str(tmp_path / "volume"), RUN_ID)


def _write(folder: Path, table: str, value: int) -> None:
    (folder / "tables" / table).mkdir(parents=True, exist_ok=True)
    path = folder / "tables" / table / "part-0.parquet"
    pq.write_table(pa.table({"value": [value]}), path)


def _value(folder: Path, table: str) -> int:
    found: int = pq.read_table(folder / "tables" / table).column("value")[0].as_py()
    return found


def test_fetching_replaces_what_is_there(
    folder: RunFolder, staging: Staging, tmp_path: Path
) -> None:
    """Tables and accounting of Spark take the place of older ones; other tables stay.

    The pipeline gets the fence alone, and a job that wrote no table leaves the run as it is.
    """
    there = tmp_path / "volume" / RUN_ID
    staging.put(folder)
    assert (there / "fence.json").read_text() == folder.read_text(folder.fence)
    assert [path.name for path in there.iterdir()] == ["fence.json"]
    _write(folder.path, "events", 1)
    staging.fetch(folder)
    assert _value(folder.path, "events") == 1
    assert not folder.accounting.exists()

    (folder.table("events") / "part-of-an-older-attempt.parquet").write_bytes(b"")
    _write(folder.path, "own", 7)
    _write(there, "events", 2)
    _write(there, "bad_messages", 3)
    (there / "accounting.json").write_text('{"lost": 0}')
    staging.fetch(folder)

    tables = ("events", "bad_messages", "own")
    assert [_value(folder.path, table) for table in tables] == [2, 3, 7]
    assert folder.read_json(folder.accounting) == {"lost": 0}
    assert not list(folder.path.glob(".fetched-*"))


def test_a_place_that_cannot_be_written_is_named(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the cause and what to check; no message shows the credentials of the environment."""
    (tmp_path / "volume").write_text("a file")
    with pytest.raises(NotReady, match="/volume/run-1") as failed:
        Staging.in_folder(str(tmp_path / "volume"), RUN_ID).put(folder)
    assert "lagbench_runs" in str(failed.value)

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    endpoint, region = "http://127.0.0.1:9", "us-east-1"
    store = Staging.in_s3("s3a://bench/runs", RUN_ID, endpoint=endpoint, region=region)
    with pytest.raises(NotReady, match="bench/runs/run-1") as failed:
        store.put(folder)
    assert "hunter2" not in str(failed.value)


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
    """A whole id wins over being the beginning of another; else the candidates are listed."""
    for wanted in ("a", "latest"):
        with pytest.raises(WrongInput, match="there is none yet"):
            find(wanted, tmp_path / "nowhere")
    for number, run_id in enumerate(("spike-1", "steady-1", "spike-10")):
        made(tmp_path, run_id, number)

    assert find("spike-1", tmp_path).run_id == "spike-1"
    assert find("st", tmp_path).run_id == "steady-1"
    assert find("latest", tmp_path).run_id == "spike-10"
    every = "one of spike-1, steady-1, spike-10"
    for wanted, allowed in (("spike", "one of spike-1, spike-10"), ("x", every), ("", every)):
        with pytest.raises(WrongInput) as refused:
            find(wanted, tmp_path)
        assert refused.value.allowed == allowed


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
