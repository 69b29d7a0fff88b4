"""``ui`` beside a run, and what ``down`` does about clusters."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.kubeconfig import cluster_target

from lagbench.adapters.kube.kube import Kube
from lagbench.cli import main
from lagbench.cli.run_lock import one_run_at_a_time
from lagbench.embedded import bench
from lagbench.errors import ExitCode
from lagbench.orchestrator import airflow_server, opened_clusters
from lagbench.orchestrator.opened_clusters import ClusterNote, cluster_notes
from lagbench.orchestrator.target import ClusterTarget


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the state folder of an empty home."""
    state_dir = tmp_path / "state"
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(state_dir))
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path / "runs"))
    return state_dir


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["lagbench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_airflow_does_not_start_beside_a_run(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its scheduler would end or repeat the Dag run of the command that holds the bench."""
    started: list[str] = []
    monkeypatch.setattr(bench, "up", lambda *_, **__: started.append("bench"))
    monkeypatch.setattr(airflow_server, "start_server", lambda *_, **__: started.append("Airflow"))

    with one_run_at_a_time(state_dir):
        code = command(monkeypatch, "ui")

    assert code == ExitCode.NOT_READY
    assert "a run (pid" in capsys.readouterr().err
    assert started == []


def test_down_touches_no_cluster_that_was_not_opened(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubeconfig of the shell is no reason to look at its cluster."""
    touched: list[str] = []
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    monkeypatch.setattr(Kube, "from_kubeconfig", touched.append)
    monkeypatch.setattr(ClusterTarget, "clean_up", touched.append)

    code = command(monkeypatch, "down")

    assert code == ExitCode.PASS
    assert touched == []
    assert not state_dir.exists()


def test_down_says_what_it_could_not_do(
    state_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The API server is unreachable: exit 3 with its address and the remains; the note stays."""
    note = ClusterNote.write(state_dir, cluster_target(tmp_path, "https://127.0.0.1:1"), "ui")
    monkeypatch.setattr(opened_clusters, "OUTAGE_SECONDS", 0.0)

    code = command(monkeypatch, "down")

    said = capsys.readouterr()
    printed = " ".join(said.err.split())
    assert code == ExitCode.NOT_READY
    assert "context:prod (https://127.0.0.1:1), for 360 s" in said.out
    for named in ("context:prod (https://127.0.0.1:1)", "spikes", "lagbench.*", "kafka:9092"):
        assert named in printed
    assert str(note.path) in printed.replace(" ", "")
    assert cluster_notes(state_dir) == [note]


def test_down_is_bounded(
    state_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A clean-up that hangs is broken off and told."""
    ClusterNote.write(state_dir, cluster_target(tmp_path, "https://api"), "run")
    monkeypatch.setattr(opened_clusters, "CLEAN_UP_LIMIT_SECONDS", 0.2)
    monkeypatch.setattr(Kube, "server_version", lambda _: "v1.34.4")
    monkeypatch.setattr(ClusterTarget, "clean_up", lambda *_: threading.Event().wait(60))

    assert command(monkeypatch, "down") == ExitCode.NOT_READY
    assert "0.2 s" in capsys.readouterr().err


def test_down_leaves_a_kubeconfig_that_leads_elsewhere(
    state_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The context has another API server than when it was opened: nothing is asked of that one."""
    ClusterNote.write(state_dir, cluster_target(tmp_path, "https://api"), "run")
    cluster_target(tmp_path, "https://other")
    touched: list[Any] = []
    monkeypatch.setattr(Kube, "server_version", touched.append)
    monkeypatch.setattr(ClusterTarget, "clean_up", touched.append)

    assert command(monkeypatch, "down") == ExitCode.NOT_READY
    assert "https://other" in " ".join(capsys.readouterr().err.split())
    assert touched == []


def test_down_cleans_up_every_cluster_that_was_opened(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails does not keep the others, and stays noted; a later down finds only that."""
    for name in ("https://a", "https://b"):
        (tmp_path / name[-1]).mkdir()
        ClusterNote.write(state_dir, cluster_target(tmp_path / name[-1], name), "ui")
    cleaned: list[str] = []

    def clean_up(target: ClusterTarget, *_: object) -> None:
        cleaned.append(json.loads(Path(str(target.kubeconfig)).read_text())["clusters"][0]["name"])

    def version(kube: Any) -> str:
        if kube.api_client.configuration.host == "https://a":
            raise opened_clusters.NotReady("https://a does not answer")
        return "v1.34.4"

    monkeypatch.setattr(ClusterTarget, "clean_up", clean_up)
    monkeypatch.setattr(Kube, "server_version", version)

    assert command(monkeypatch, "down") == ExitCode.NOT_READY
    assert cleaned == ["https://b"]
    monkeypatch.setattr(Kube, "server_version", lambda _: "v1.34.4")
    assert command(monkeypatch, "down") == ExitCode.PASS
    assert cleaned == ["https://b", "https://a"]
    assert cluster_notes(state_dir) == []
