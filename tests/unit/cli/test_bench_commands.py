"""``ui`` beside a run, and what ``down`` does about clusters."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.kubeconfig import cluster_target
from tests.unit.cli.conftest import Command

from lagbench.adapters.kube.kube import Kube
from lagbench.cli.run_lock import one_run_at_a_time
from lagbench.embedded import bench
from lagbench.errors import ExitCode, NotReady
from lagbench.orchestrator import airflow_server, opened_clusters
from lagbench.orchestrator.opened_clusters import ClusterNote, cluster_notes
from lagbench.orchestrator.target import ClusterTarget


def test_airflow_does_not_start_beside_a_run(lagbench: Command) -> None:
    """Its scheduler would end or repeat the Dag run of the command that holds the bench."""
    started: list[str] = []
    for module, name in ((bench, "up"), (airflow_server, "start_server")):
        lagbench.monkeypatch.setattr(module, name, lambda *_, **__: started.append("one"))

    with one_run_at_a_time(lagbench.state):
        answer = lagbench("ui")

    assert answer.code == ExitCode.NOT_READY
    assert "a run (pid" in answer.err
    assert started == []


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Keep what would be asked of a cluster's API server, and what would be cleaned up."""
    touched: list[Any] = []
    monkeypatch.setattr(Kube, "server_version", touched.append)
    monkeypatch.setattr(ClusterTarget, "clean_up", lambda it, *_: touched.append(it.name))
    return touched


def test_down_touches_no_cluster_that_was_not_opened(lagbench: Command, touched: list[Any]) -> None:
    """A kubeconfig of the shell is no reason to look at its cluster."""
    lagbench.monkeypatch.setenv("KUBECONFIG", "/nowhere/config")

    assert lagbench("down").code == ExitCode.PASS
    assert touched == []
    assert not lagbench.state.exists()


def test_down_leaves_a_kubeconfig_that_leads_elsewhere(
    lagbench: Command, tmp_path: Path, touched: list[Any]
) -> None:
    """The context has another API server than when it was opened: nothing is asked of that one."""
    ClusterNote.write(lagbench.state, cluster_target(tmp_path, "https://api"), "run")
    cluster_target(tmp_path, "https://other")
    answer = lagbench("down")

    assert answer.code == ExitCode.NOT_READY
    assert "https://other" in answer.text
    assert touched == []


def test_down_says_what_it_could_not_do(lagbench: Command, tmp_path: Path) -> None:
    """The API server is unreachable: exit 3 with its address and the remains; the note stays."""
    note = ClusterNote.write(lagbench.state, cluster_target(tmp_path, "https://127.0.0.1:1"), "ui")
    lagbench.monkeypatch.setattr(opened_clusters, "OUTAGE_SECONDS", 0.0)
    answer = lagbench("down")

    assert answer.code == ExitCode.NOT_READY
    for named in ("context:prod (https://127.0.0.1:1)", "spikes", "lagbench.*", "kafka:9092"):
        assert named in answer.text
    assert str(note.path) in answer.joined
    assert cluster_notes(lagbench.state) == [note]


def test_down_is_bounded(lagbench: Command, tmp_path: Path) -> None:
    """A clean-up that hangs is broken off and told."""
    ClusterNote.write(lagbench.state, cluster_target(tmp_path, "https://api"), "run")
    lagbench.monkeypatch.setattr(opened_clusters, "CLEAN_UP_LIMIT_SECONDS", 0.2)
    lagbench.monkeypatch.setattr(Kube, "server_version", lambda _: "v1.34.4")
    hangs = threading.Event()
    lagbench.monkeypatch.setattr(ClusterTarget, "clean_up", lambda *_: hangs.wait(60))
    answer = lagbench("down")

    assert answer.code == ExitCode.NOT_READY
    assert "0.2 s" in answer.err


def test_down_cleans_up_every_cluster_that_was_opened(lagbench: Command, tmp_path: Path) -> None:
    """One that fails does not keep the others, and stays noted; a later down finds only that."""
    for name in ("https://a", "https://b"):
        (tmp_path / name[-1]).mkdir()
        ClusterNote.write(lagbench.state, cluster_target(tmp_path / name[-1], name), "ui")
    cleaned: list[str] = []

    def clean_up(target: ClusterTarget, *_: object) -> None:
        cleaned.append(json.loads(Path(str(target.kubeconfig)).read_text())["clusters"][0]["name"])

    def version(kube: Any) -> str:
        if kube.api_client.configuration.host == "https://a":
            raise NotReady("https://a does not answer")
        return "v1.34.4"

    lagbench.monkeypatch.setattr(ClusterTarget, "clean_up", clean_up)
    lagbench.monkeypatch.setattr(Kube, "server_version", version)
    assert lagbench("down").code == ExitCode.NOT_READY
    assert cleaned == ["https://b"]

    lagbench.monkeypatch.setattr(Kube, "server_version", lambda _: "v1.34.4")
    assert lagbench("down").code == ExitCode.PASS
    assert cleaned == ["https://b", "https://a"]
    assert cluster_notes(lagbench.state) == []
