"""``lagbench watch`` attaches to a run in progress, and to no other."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.cli import cell_commands
from lagbench.cli.cell_commands import report, show, watch
from lagbench.core.live.line import LiveLine, encode_line
from lagbench.core.measures.evidence.observation import Observation
from lagbench.errors import ExitCode, NotReady, WrongInput


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Return the folder of a run that began long ago."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    made = RunFolder.create("a-run", tmp_path)
    made.write_json(made.manifest, {"created_at": 1})
    return made


def test_an_unknown_run_is_wrong_input(folder: RunFolder) -> None:
    """The message lists the runs that there are."""
    with pytest.raises(WrongInput, match="one of a-run") as refused:
        watch("another")

    assert refused.value.exit_code == ExitCode.WRONG_INPUT


@pytest.mark.parametrize("has_lines", [False, True])
def test_a_run_that_has_ended_is_wrong_input(folder: RunFolder, has_lines: bool) -> None:
    """A run without a follower is no longer in progress; the message names the next command."""
    if has_lines:
        folder.live.write_bytes(encode_line(LiveLine(at=1)))

    with pytest.raises(WrongInput, match="lagbench show a-run"):
        watch("a-run")


def test_an_observation_has_no_live_lines(folder: RunFolder) -> None:
    """It shows itself in its own terminal, and no follower will come."""
    seen = Observation(group="shop", topic="orders").as_dict()
    folder.write_json(folder.manifest, {"created_at": time.time_ns(), "observed": seen})

    with pytest.raises(WrongInput, match="lagbench show a-run"):
        watch("a-run")


def test_a_young_run_is_awaited(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its bench is up a run has no follower; a failed phase ends the wait."""
    folder.write_json(folder.manifest, {"created_at": time.time_ns()})

    def fail(_seconds: float) -> bool:
        entry = {"at": 1, "name": "bench_up", "state": "failed", "detail": "no Java"}
        folder.phases.write_text(json.dumps(entry) + "\n")
        return False

    monkeypatch.setattr(
        cell_commands.threading, "Event", lambda: type("E", (), {"wait": staticmethod(fail)})
    )

    with pytest.raises(NotReady, match="bench_up: no Java"):
        watch("a-run")


def test_the_last_line_ends_the_watch(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the follower holds the file lines are shown; the verdict is the exit code."""
    folder.live.write_bytes(encode_line(LiveLine(at=1, lag=7)))
    holder = os.open(folder.live, os.O_WRONLY | os.O_APPEND)
    fcntl.flock(holder, fcntl.LOCK_EX)

    def finish(_seconds: float) -> bool:
        verdict = {"run_id": "a-run", "status": "fail", "reasons": ["late"], "slos": []}
        folder.write_json(folder.verdict, verdict)
        os.write(holder, encode_line(LiveLine(at=2, is_last=True)))
        return False

    monkeypatch.setattr(
        cell_commands.threading, "Event", lambda: type("E", (), {"wait": staticmethod(finish)})
    )

    assert watch("a-run") == ExitCode.SLO_FAILED
    assert "lag 7" in capsys.readouterr().out
    os.close(holder)


@pytest.mark.parametrize(
    ("file", "verb"),
    [("live.jsonl", report), ("live.jsonl", show), ("records.jsonl", report)],
)
def test_a_run_in_progress_gets_no_page_of_a_stopped_one(
    file: str, verb: Callable[[str], int], folder: RunFolder
) -> None:
    """A rehearsal's follower, or an observation, holds its file."""
    folder.phases.write_text(json.dumps({"at": 1, "name": "bench_up", "state": "started"}) + "\n")
    with (folder.path / file).open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(NotReady, match="still in progress"):
            verb("a-run")
    assert not folder.report.exists()

    if file == "live.jsonl":  # its follower has ended
        with pytest.raises(NotReady, match="stopped before its stream"):
            verb("a-run")
