"""The run folder and the list of runs."""

import hashlib
import json
import platform
from pathlib import Path

import confluent_kafka
import pytest

from lagbench.adapters.runs.run_folder import RunFolder, list_runs, runs_root
from lagbench.adapters.runs.run_manifest import add_versions, write_manifest
from lagbench.errors import NotReady, WrongInput
from lagbench.project import PROJECT_ROOT


def made(root: Path, run_id: str, created_at: int = 1) -> RunFolder:
    """Return a run with a manifest."""
    folder = RunFolder.create(run_id, root)
    folder.update_manifest(created_at=created_at, scenario="s", policy="p", seed=7)
    return folder


def test_json_survives_a_round_trip(tmp_path: Path) -> None:
    """By path and by name inside the folder."""
    folder = RunFolder.create("a", tmp_path)

    folder.write_json("x.json", {"ü": [1, None]})

    assert folder.read_json(folder.path / "x.json") == {"ü": [1, None]}
    assert folder.read_json("x.json") == {"ü": [1, None]}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """NaN is rejected; the file that was there stays whole."""
    folder = RunFolder.create("a", tmp_path)
    folder.write_json("x.json", {"v": 1})

    with pytest.raises(ValueError, match="JSON compliant"):
        folder.write_json("x.json", {"v": float("nan")})
    with pytest.raises(UnicodeEncodeError):
        folder.write_text("x.json", "\ud800")

    assert folder.read_json("x.json") == {"v": 1}
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
    """Fields of before stay."""
    folder = made(tmp_path, "a")

    folder.update_manifest(stream_started_at=5)

    manifest = folder.read_json(folder.manifest)
    assert (manifest["seed"], manifest["stream_started_at"]) == (7, 5)


def test_a_run_id_that_is_none_is_refused(tmp_path: Path) -> None:
    """Nothing is made, least of all outside the root."""
    with pytest.raises(WrongInput, match="run_id"):
        RunFolder.create("../x", tmp_path / "runs")

    assert list(tmp_path.iterdir()) == []


def test_runs_are_listed_by_creation(tmp_path: Path) -> None:
    """Also one that died before it had a verdict, or a manifest that is broken."""
    made(tmp_path, "b", 1)
    made(tmp_path, "a", 2).write_json("verdict.json", {"status": "pass"})
    broken = RunFolder.create("c", tmp_path)
    broken.write_text(broken.manifest, "{")

    assert [(run.run_id, run.verdict) for run in list_runs(tmp_path)] == [
        ("c", None),
        ("b", None),
        ("a", "pass"),
    ]


def test_the_root_is_given_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LAGBENCH_RUNS_DIR, else runs in the project."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    assert runs_root() == tmp_path

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


def test_a_task_adds_versions_to_those_that_are_known(tmp_path: Path) -> None:
    """The findings of bench_up and apply_scaling_policy replace nothing of plan_cell."""
    folder = RunFolder.create("a", tmp_path)
    folder.write_json(folder.manifest, {"seed": 7, "versions": {"python": "3.11.7"}})

    add_versions(folder, {"java": "17.0.17"})
    add_versions(folder, {"keda": "2.21.0"})

    assert folder.read_json(folder.manifest) == {
        "seed": 7,
        "versions": {"python": "3.11.7", "java": "17.0.17", "keda": "2.21.0"},
    }
