"""A conf that only the command line can have written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.kubeconfig import cluster_target

from lagbench.errors import NotReady, WrongInput
from lagbench.orchestrator.opened_clusters import (
    ClusterNote,
    cluster_notes,
    has_removed_workloads,
)
from lagbench.orchestrator.sealed_conf import SEALED, break_seal, read_sealed, seal

CONF: dict[str, Any] = {
    "scenario": "/home/me/mine.yaml",
    "run_id": "a",
    "keep_bench": True,
    "overrides": {"consumer.env.MODE": "hush"},
}


def test_a_sealed_conf_is_read_once(tmp_path: Path) -> None:
    """Airflow gets its name; the values are in a file of its owner alone.

    The name is in the conf of a run that waits: another Dag run cannot take it.
    """
    told = seal(tmp_path, CONF, dag_run="cli__a")

    assert "hush" not in str(told)
    assert "/home/me" not in str(told)
    assert (told["run_id"], told["keep_bench"], told["scenario"]) == ("a", True, "mine.yaml")
    file = tmp_path / SEALED / told[SEALED]
    assert [one.stat().st_mode & 0o777 for one in (file.parent, file)] == [0o700, 0o600]
    with pytest.raises(WrongInput):
        read_sealed(tmp_path, told[SEALED], dag_run="manual__1")
    assert read_sealed(tmp_path, told[SEALED], dag_run="cli__a") == CONF
    with pytest.raises(WrongInput):
        read_sealed(tmp_path, told[SEALED], dag_run="cli__a")


def forged(name: str, root: Path) -> object:
    """Return what a conf of the REST API may name in place of a seal."""
    folder, outside, good = root / SEALED, root / "outside", "0" * 32
    outside.write_text('{"scenario": "/etc/passwd"}')
    outside.chmod(0o600)
    folder.mkdir(mode=0o700)
    (folder / "x.json").write_text("{}")
    match name:
        case "link":
            (folder / good).symlink_to(outside)
        case "readable by others":
            (folder / good).write_text("{}")
        case "folder of others":
            (folder / good).write_text("{}")
            (folder / good).chmod(0o600)
            folder.chmod(0o770)
        case "fifo":
            import os

            os.mkfifo(folder / good, 0o600)
        case "no name":
            return "x.json"
        case "above":
            return "../outside"
        case "whole path":
            return str(outside)
        case "list":
            return ["x.json"]
    return good


@pytest.mark.parametrize(
    "name",
    [
        "link",
        "readable by others",
        "folder of others",
        "fifo",
        "no name",
        "above",
        "whole path",
        "list",
        "none there",
    ],
)
def test_a_conf_cannot_claim_to_be_the_command_line_s(tmp_path: Path, name: str) -> None:
    """Only a private file directly in that folder is one."""
    claimed = forged(name, tmp_path)

    with pytest.raises(WrongInput) as refused:
        read_sealed(tmp_path, claimed, dag_run="cli__a")

    assert refused.value.field == SEALED


def test_a_seal_that_no_run_has_read_is_broken(tmp_path: Path) -> None:
    """Also twice: the run may have read it."""
    told = seal(tmp_path, CONF, dag_run=None)

    break_seal(tmp_path, told[SEALED])
    break_seal(tmp_path, told[SEALED])

    assert list((tmp_path / SEALED).iterdir()) == []


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
    assert not has_removed_workloads(tmp_path / "never")
