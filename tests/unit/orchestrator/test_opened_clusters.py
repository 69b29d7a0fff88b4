"""The notes of clusters that may not be clean."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.kubeconfig import cluster_target

from lagbench.errors import NotReady
from lagbench.orchestrator.opened_clusters import (
    ClusterNote,
    cluster_notes,
    has_removed_workloads,
)


def test_a_note_leads_there_from_any_shell(tmp_path: Path) -> None:
    """Kubeconfig, context, API server and settings are in it, for the owner's eyes."""
    target = cluster_target(tmp_path, "https://api")

    note = ClusterNote.write(tmp_path, target, "run")

    assert json.loads(note.path.read_text()) == {
        "cluster": {
            "name": "context:prod",
            "kubeconfig": str(tmp_path / "kubeconfig"),
            "context": "prod",
            "fields": {"namespace": "spikes"},
            "bootstrap_servers": "kafka:9092",
            "kafka_config": None,
        },
        "api_server": "https://api",
    }
    assert note.path.stat().st_mode & 0o777 == 0o600


def test_the_default_kubeconfig_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another shell's KUBECONFIG must not lead elsewhere."""
    (tmp_path / ".kube").mkdir()
    target = cluster_target(tmp_path, "https://api")
    (tmp_path / "kubeconfig").rename(tmp_path / ".kube" / "config")
    monkeypatch.setenv("HOME", str(tmp_path))

    note = ClusterNote.write(tmp_path, replace(target, kubeconfig=None), "run")

    noted = json.loads(note.path.read_text())["cluster"]["kubeconfig"]
    assert noted == str(tmp_path / ".kube" / "config")


def test_a_run_and_airflow_have_a_note_each(tmp_path: Path) -> None:
    """A run that has cleaned up forgets its own; Airflow may have more to leave."""
    target = cluster_target(tmp_path, "https://api")
    of_run = ClusterNote.write(tmp_path, target, "run")
    of_ui = ClusterNote.write(tmp_path, target, "ui")
    assert ClusterNote.write(tmp_path, target, "run") == of_run

    of_run.forget()

    assert cluster_notes(tmp_path) == [of_ui]
    assert cluster_notes(tmp_path, "run") == []


def test_a_note_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    """It is not taken for no note."""
    note = ClusterNote.write(tmp_path, cluster_target(tmp_path, "https://api"), "run")
    note.path.write_text("{}")

    with pytest.raises(NotReady, match="cannot be read"):
        note.clean_up(lambda _: None)

    assert note.path.exists()


@pytest.mark.parametrize(
    ("states", "is_clean"),
    [
        ([], False),
        (["started"], False),
        (["started", "failed"], False),
        (["started", "failed", "started", "finished"], True),
    ],
)
def test_a_run_is_clean_when_its_teardown_says_so(
    tmp_path: Path, states: list[str], *, is_clean: bool
) -> None:
    """Its last try counts; a run without the phase was ended before."""
    phases = [{"name": "bench_up", "state": "finished"}]
    phases += [{"name": "remove_workloads", "state": state} for state in states]
    (tmp_path / "phases.jsonl").write_text("".join(json.dumps(p) + "\n" for p in phases))

    assert has_removed_workloads(tmp_path) is is_clean


def test_a_run_without_a_folder_has_removed_nothing(tmp_path: Path) -> None:
    """It was ended before its first task."""
    assert not has_removed_workloads(tmp_path / "never")
