"""A run on a cluster is noted until its cluster is known to be clean."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.kubeconfig import cluster_target
from tests.unit.cli.conftest import Answer, Command

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.runs import run_folder
from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import list_scenarios
from lagbench.cli import rehearsal, run_command
from lagbench.cli.rehearsal import log_in_seconds, one_run_at_a_time, run_seconds
from lagbench.embedded import bench
from lagbench.errors import ExitCode, NotReady
from lagbench.orchestrator import airflow_server, opened_clusters, target
from lagbench.orchestrator.opened_clusters import ClusterNote, cluster_notes
from lagbench.orchestrator.target import ClusterTarget
from lagbench.report.plan_rows import predicted_run


class Home:
    """A home from which runs go to a cluster; what a run would do there is a function."""

    def __init__(self, root: Path, lagbench: Command) -> None:
        """Begin without history."""
        self.lagbench, self.state_dir = lagbench, lagbench.state
        self.cleaned: list[str] = []
        cluster, patch = cluster_target(root, "https://api"), lagbench.monkeypatch.setattr
        patch(target, "find_target", lambda *_: cluster)
        patch(ClusterTarget, "check", lambda *_, **__: None)
        patch(ClusterTarget, "connections", lambda _: {})
        patch(ClusterTarget, "clean_up", lambda it, *_: self.cleaned.append(it.name))
        patch(Kube, "server_version", lambda _: "v1.34.4")
        patch(run_command, "_conclude", lambda *_, **__: 0)

    def run(self, follow: Callable[..., None]) -> Answer:
        """Run with ``follow`` in place of the Dag."""
        self.lagbench.monkeypatch.setattr(rehearsal, "follow", follow)
        return self.lagbench("run", "quick_spike")


@pytest.fixture
def home(tmp_path: Path, lagbench: Command) -> Home:
    """Return a home."""
    return Home(tmp_path, lagbench)


@pytest.mark.parametrize(
    ("error", "is_torn_down", "code", "cleaned", "notes"),
    [
        (None, True, ExitCode.PASS, [], 0),
        # The next down, or the next run there, cleans up.
        (NotReady("no verdict"), False, ExitCode.NOT_READY, [], 1),
        (KeyboardInterrupt(), False, 130, ["context:prod"], 0),
        # After its teardown the cluster may be another run's.
        (KeyboardInterrupt(), True, 130, [], 0),
    ],
)
def test_the_note_stands_while_the_run_does(
    home: Home,
    error: BaseException | None,
    *,
    is_torn_down: bool,
    code: int,
    cleaned: list[str],
    notes: int,
) -> None:
    """It is there before the Dag starts, and gone when the cluster is known to be clean."""
    seen: list[int] = []

    def follow(*_: object, conf: dict[str, Any], **__: object) -> None:
        seen.append(len(cluster_notes(home.state_dir, "run")))
        if is_torn_down:  # what a whole teardown leaves in the run folder
            folder = run_folder.runs_root() / conf["run_id"]
            folder.mkdir(parents=True)
            phase = {"name": "remove_workloads", "state": "finished"}
            (folder / "phases.jsonl").write_text(json.dumps(phase) + "\n")
        if error is not None:
            raise error

    assert home.run(follow).code == code
    assert seen == [1]
    assert (home.cleaned, len(cluster_notes(home.state_dir, "run"))) == (cleaned, notes)


def test_an_interrupted_run_that_cannot_clean_up_says_so(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 3 with the reason, and the note stays for down."""

    def follow(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def away(*_: object) -> None:
        raise NotReady("https://api does not answer")

    monkeypatch.setattr(ClusterTarget, "clean_up", away)
    answer = home.run(follow)

    assert (answer.code, "https://api does not answer" in answer.err) == (ExitCode.NOT_READY, True)
    assert len(cluster_notes(home.state_dir, "run")) == 1


def test_a_token_that_ends_within_the_run_ends_it_before_it_starts(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that crosses the token's end has neither verdict nor clean-up: nothing is created."""
    asked: list[float] = []

    def refuse(_: ClusterTarget, *, for_seconds: float) -> None:
        asked.append(for_seconds)
        raise NotReady("the token ends")

    monkeypatch.setattr(ClusterTarget, "require_log_in", refuse)

    assert home.run(lambda *_, **__: pytest.fail("it started")).code == ExitCode.NOT_READY
    assert asked[0] > 900
    assert cluster_notes(home.state_dir) == []


@pytest.mark.parametrize("name", list_scenarios())
def test_a_token_of_twelve_hours_is_enough_for_each_scenario(name: str) -> None:
    """A kubeconfig of k8s/runner-kubeconfig.sh works for the catalog, at its start."""
    assert 900 < log_in_seconds(checked_cell(name)) < 11 * 3600


def test_a_run_with_a_swapped_policy_takes_as_long_as_its_prediction() -> None:
    """One rule for ``plan``, the header of a run and the log-in."""
    actions = "[{kind: swap_policy, at_seconds: 30, policy: lag-default}]"
    cell = checked_cell("quick_spike", overrides={"actions": actions})

    assert run_seconds(cell) == predicted_run(cell, phases=1)[1]
    assert run_seconds(cell) != run_seconds(checked_cell("quick_spike"))


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


@pytest.mark.parametrize(
    ("version", "policy", "code", "said"),
    [
        ("v1.37.2", "lab-hysteresis-1-37", ExitCode.PASS, ""),
        ("v1.38.0", "lab-hysteresis-1-37", ExitCode.PASS, "v1.38.0 is followed as 1.37"),
        ("v1.36.1", "lab-hysteresis-1-37", ExitCode.WRONG_INPUT, "lagbench.io/kubernetes"),
        ("v1.34.4", "lab-hysteresis", ExitCode.PASS, ""),
    ],
)
def test_the_version_of_a_cluster_decides(
    home: Home, version: str, policy: str, code: int, said: str
) -> None:
    """A policy for another one is refused before Airflow starts."""
    home.lagbench.monkeypatch.setattr(Kube, "server_version", lambda _: version)
    followed: list[Any] = []
    home.lagbench.monkeypatch.setattr(rehearsal, "follow", lambda *_, **__: followed.append(1))
    answer = home.lagbench("run", "quick_spike", "--policy", policy)

    assert (answer.code, bool(followed)) == (code, code == ExitCode.PASS)
    assert said in answer.text


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Keep what would be asked of a cluster's API server, and what would be cleaned up."""
    touched: list[Any] = []
    monkeypatch.setattr(Kube, "server_version", touched.append)
    monkeypatch.setattr(ClusterTarget, "clean_up", lambda it, *_: touched.append(it.name))
    return touched


def test_down_touches_no_cluster_that_it_does_not_know(
    lagbench: Command, tmp_path: Path, touched: list[Any]
) -> None:
    """A kubeconfig of the shell is no reason to look at its cluster.

    Nor is a context that has another API server now than when it was opened.
    """
    lagbench.monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    assert lagbench("down").code == ExitCode.PASS
    assert not lagbench.state.exists()
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
