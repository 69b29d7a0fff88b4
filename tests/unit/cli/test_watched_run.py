"""The terminal shows what live lines add up to, and a missing figure as missing."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.fakes.live_cell import live_cell

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.cli import cell_commands, watched_run
from lagbench.cli.cell_commands import report, show, watch
from lagbench.cli.rehearsal import one_run_at_a_time, stop_running_run
from lagbench.cli.terminal import Terminal
from lagbench.cli.watched_run import ProgressDisplay, RunView, WatchedRun, panel, sparkline
from lagbench.core.live.live_line import LiveLine, LivePhase, decode_line, encode_line
from lagbench.core.measures.evidence.observed_group import Observation
from lagbench.core.scenario.slo_limits import Slos
from lagbench.errors import ExitCode, NotReady, WrongInput
from lagbench.programs.live.run_follower import LiveFile, is_followed

S = 1_000_000_000

CELL = live_cell((10, 30), slos=Slos())

FIRST = LiveLine(at=S, run=CELL)

SECOND = LiveLine(
    at=2 * S,
    second=20.0,
    lag=1234,
    time_lag_seconds=2.5,
    replicas=(3, 2),
    planned_per_second=600.0,
    processed_per_second=500.0,
    standing={"flips": (1.0, "broken"), "lost": (None, "at_end")},
)


def view_of(*lines: LiveLine) -> RunView:
    """Return the view after the lines."""
    view = RunView()
    for line in lines:
        view.take_line(line)
    return view


def drawn(view: RunView, *, width: int = 100) -> str:
    """Return the live panel as text."""
    console = Terminal(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(panel("a-run", view, 12.0))
    return capture.get()


@pytest.mark.parametrize(
    ("values", "bars"), [([0, 50, None, 100], "▁▄·█"), ([0, 0], "▁▁"), ([], "")]
)
def test_a_sparkline_is_scaled_to_its_maximum(values: list[int | None], bars: str) -> None:
    """The highest value has the highest bar, and a missing one is a dot."""
    assert sparkline(values) == bars


def test_nothing_seen_is_not_zero() -> None:
    """Before the first line the panel has dashes."""
    text = drawn(RunView())

    assert "lag │ –" in text
    assert "0/s" not in text


def test_the_panel_shows_figures_standing_and_what_is_to_come() -> None:
    """Lag, replicas, the broken SLO and the time to the planned end are in it."""
    text = drawn(view_of(FIRST, SECOND))

    assert "1,234" in text
    assert "2/3 ready" in text
    assert "✗ 1 flips, broken (at most 0 flips)" in text
    assert re.search(" 40 s, .* 60 s", text)
    assert "starting" in text
    narrow = drawn(view_of(FIRST, SECOND), width=40)
    assert max(map(len, narrow.splitlines())) <= 40


def test_the_terminal_says_which_group_of_two_it_shows() -> None:
    """The verdict is of both groups; a cell of before does not name its group."""
    of_first = msgspec.structs.replace(CELL, group="first")
    text = drawn(view_of(LiveLine(at=S, run=of_first, verdict="fail")))

    assert "group │ first of two" in text
    assert "verdict │ fail, both groups" in text
    assert "group" not in drawn(view_of(FIRST, SECOND))
    before = encode_line(FIRST).replace(b',"group":null', b"")
    assert decode_line(before) == FIRST


@pytest.mark.parametrize(("task", "is_told"), [("lag_drained", True), ("fence_run", False)])
def test_the_terminal_says_what_a_wait_is_for(task: str, *, is_told: bool) -> None:
    """The follower knows it; a newer phase has a state of its own."""
    waits = "processing the last messages: no commit for 30 s"
    view = view_of(FIRST, msgspec.structs.replace(SECOND, state=waits))
    view.take_phase(LivePhase(at=S, name=task, state="started"))

    assert (waits in drawn(view)) == is_told


def test_another_follower_begins_anew() -> None:
    """A line with the cell forgets the standing that another follower told."""
    view = view_of(FIRST, SECOND, FIRST)

    assert view.standing == {}
    assert [line.lag for line in view.lines] == [None, 1234, None]


def test_elsewhere_a_line_tells_phase_and_figures() -> None:
    """A file or a pipe gets plain lines, one for each phase at least."""
    output = io.StringIO()
    console, view = Terminal(file=output, width=200), view_of(FIRST, SECOND)
    with ProgressDisplay(console, "a-run", 153.3) as display:
        for name in ("inject_spike", "inject_spike", "lag_builds_up"):
            view.take_phase(LivePhase(at=S, name=name, state="started"))
            display.show(view)

    head, first, second = output.getvalue().splitlines()
    assert re.search(r"load for \d+ s, replicas at rest after about \d+ s", head)
    for shown in ("starting the load", " 1,234 ", " 2/3 ", " 600/s", " 500/s"):
        assert shown in first
    assert "0 of about 153 s " in first
    assert "inject_spike" not in output.getvalue()
    assert "spike" in second


def test_a_phase_says_how_far_it_is_until_the_next_one() -> None:
    """Spark's progress takes the place of figures that do not change any more."""
    view = view_of(FIRST, SECOND)
    said = "458,139 messages, 40 %: landing the log"
    for state, detail in (("started", ""), ("progress", said)):
        view.take_phase(LivePhase(at=S, name="account_for_messages", state=state, detail=detail))
    output = io.StringIO()
    with ProgressDisplay(Terminal(file=output, width=200), "a-run") as display:
        display.show(view)
    shown = drawn(view)
    view.take_phase(LivePhase(at=S, name="verdict", state="started"))

    assert output.getvalue().splitlines()[-1].endswith(f" {said}")
    assert said in shown
    assert said not in drawn(view)


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFolder:
    """Return the folder of a run that has begun."""
    return RunFolder.create("a-run", tmp_path)


def test_a_run_is_watched_by_its_files(run_folder: RunFolder) -> None:
    """Whole lines and phases are taken once, the rest of a line when it is there."""
    watched = WatchedRun(run_folder)
    watched.advance()
    data = encode_line(SECOND)
    run_folder.live.write_bytes(encode_line(FIRST) + data[:20])
    failed = {"at": S, "name": "bench_up", "state": "failed", "detail": "no room"}
    run_folder.phases.write_text(json.dumps(failed) + "\n")
    watched.advance()
    assert watched.view.newest == FIRST

    with run_folder.live.open("ab") as file:
        file.write(data[20:])
    watched.advance()

    assert watched.view.newest == SECOND
    assert watched.view.failures == ["bench_up: no room"]


def test_a_line_of_another_version_is_left_out(run_folder: RunFolder) -> None:
    """A line that is not understood hides no other."""
    run_folder.live.write_bytes(b'{"at": "soon"}\n' + encode_line(SECOND))
    watched = WatchedRun(run_folder)

    watched.advance()

    assert watched.view.newest == SECOND


def test_the_follower_s_end_is_awaited_for_a_while(
    run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose server goes on with its teardown keeps nobody waiting for long."""
    watched = WatchedRun(run_folder)
    watched.await_follower()

    monkeypatch.setattr(watched_run, "FOLLOWER_SECONDS", 0.0)
    with LiveFile(run_folder.live):
        watched.await_follower()
        assert is_followed(run_folder.live)


OBSERVED = Observation(group="shop", topic="orders").as_dict()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Return the folder of a run that began long ago."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    made = RunFolder.create("a-run", tmp_path)
    made.write_json(made.manifest, {"created_at": 1})
    return made


@pytest.mark.parametrize(
    ("run", "manifest", "has_lines", "named"),
    [
        ("another", {}, False, "one of a-run"),
        # A run without a follower is no longer in progress; the message names the next command.
        ("a-run", {}, False, "lagbench show a-run"),
        ("a-run", {}, True, "lagbench show a-run"),
        # An observation shows itself in its own terminal, and no follower will come.
        ("a-run", {"observed": OBSERVED}, False, "lagbench show a-run"),
    ],
)
def test_what_cannot_be_watched_is_wrong_input(
    folder: RunFolder, run: str, manifest: dict[str, Any], has_lines: bool, named: str
) -> None:
    """By name, with what there is."""
    if has_lines:
        folder.live.write_bytes(encode_line(LiveLine(at=1)))
    if manifest:
        folder.write_json(folder.manifest, {"created_at": time.time_ns(), **manifest})

    with pytest.raises(WrongInput, match=named):
        watch(run)


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


HOLD = """
import signal, sys
from pathlib import Path
from lagbench.cli.rehearsal import one_run_at_a_time
with one_run_at_a_time(Path(sys.argv[1])):
    print("held", flush=True)
    {then}
    print("ready", flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("is_deaf", [False, True])
def test_a_second_run_is_refused_by_name(tmp_path: Path, *, is_deaf: bool) -> None:
    """The message names the process that holds the bench; it is asked to end, and then killed.

    After a run the next one may start, and there is nothing to stop.
    """
    code = HOLD.format(then="signal.signal(15, signal.SIG_IGN)" if is_deaf else "")
    command, said = [sys.executable, "-c", code, str(tmp_path)], list[str]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert [holder.stdout.readline() for _ in range(2)] == ["held\n", "ready\n"]
        with pytest.raises(NotReady, match=str(holder.pid)), one_run_at_a_time(tmp_path):
            pass
        grace = 0.2 if is_deaf else 60
        assert stop_running_run(tmp_path, grace_seconds=grace, say=said.append) == "a run"
        assert not psutil.pid_exists(holder.pid)
        assert len(said) == 1 + is_deaf
        assert all(f"pid {holder.pid}" in line for line in said)

    with one_run_at_a_time(tmp_path):
        pass
    assert not stop_running_run(tmp_path)
