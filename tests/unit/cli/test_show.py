"""``lagbench show``: the list of runs, and a verdict as the exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.fakes.run_folder_builder import quick_spike_run

from lagbench.adapters.runs.run_folder import RunFolder, list_runs
from lagbench.cli import main, run_command
from lagbench.cli.terminal import Terminal
from lagbench.cli.verdict_table import print_runs
from lagbench.errors import ExitCode
from lagbench.results.measure import judge_run

LONGEST_ID = "consumer-restart-while-the-brokers-roll-20261122-0b1"
FIGURES = {
    "created_at": 1795366604434006716,
    "scenario": "quick_spike",
    "policy": "lag-and-cpu-with-fallback",
    "seed": 11,
    "fidelity": "kubernetes",
}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a runs folder with a judged run, whose id is as long as ids may be."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "80")
    folder = RunFolder.create(LONGEST_ID, tmp_path / "runs")
    folder.write_json(folder.manifest, FIGURES)
    folder.write_json(folder.verdict, {"status": "undetermined"})
    return tmp_path / "runs"


def printed(runs: Path, *, columns: int, is_terminal: bool) -> list[str]:
    """Return the lines of the list."""
    console = Terminal(width=columns, force_terminal=is_terminal, color_system=None)
    with console.capture() as captured:
        print_runs(console, list_runs(runs))
    return captured.get().splitlines()


def test_a_run_id_is_whole_at_80_columns(runs: Path) -> None:
    """Id and verdict stand on one line of a terminal; the last line names what had no room."""
    heading, run, left_out = printed(runs, columns=80, is_terminal=True)

    assert heading.split() == ["run", "verdict"]
    assert run.split() == [LONGEST_ID, "undetermined"]
    assert max(len(line) for line in (heading, run, left_out)) <= 80
    named = left_out.partition(":")[0].split(", ")
    assert named == ["policy", "began", "scenario", "seed", "fidelity"]


def test_the_width_that_the_list_asks_for_is_enough(runs: Path) -> None:
    """A terminal of the named width shows every column, and nothing is cut."""
    wanted = int(printed(runs, columns=80, is_terminal=True)[-1].split()[-2])
    lines = printed(runs, columns=wanted, is_terminal=True)

    assert len(lines) == 2
    assert FIGURES["policy"] in lines[1].split()
    assert "…" not in lines[1]


def test_a_pipe_gets_all_columns(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``lagbench show | grep`` finds scenario, policy and fidelity on the line of the run."""
    assert exit_code(["show"]) == ExitCode.PASS

    line = capsys.readouterr().out.splitlines()[1]
    assert line.split()[:3] == [LONGEST_ID, "undetermined", FIGURES["policy"]]
    assert line.split()[-1] == "kubernetes"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("pass", ExitCode.PASS),
        ("fail", ExitCode.SLO_FAILED),
        ("undetermined", ExitCode.UNDETERMINED),
    ],
)
def test_the_exit_code_is_the_verdict_s(runs: Path, status: str, code: ExitCode) -> None:
    """A script that asks ``show RUN`` learns what ``run`` would have returned."""
    folder = judged(runs)
    verdict = folder.read_json(folder.verdict)
    folder.write_json(folder.verdict, verdict | {"status": status})

    assert exit_code(["show", folder.run_id]) == code


def test_a_run_without_a_verdict_is_not_ready(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3: nothing is known yet."""
    folder = RunFolder.create("still-going", runs)
    folder.write_json(folder.manifest, FIGURES)

    assert exit_code(["show", "still-going"]) == ExitCode.NOT_READY
    assert "verdict.json" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["measures.json", "accounting.json"])
def test_a_verdict_of_other_files_is_not_shown(
    runs: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """What the verdict rests on was changed since: it is none of this folder any more."""
    folder = judged(runs)
    text = folder.read_text(name)
    folder.write_text(name, text.replace("7", "8", 1))

    assert exit_code(["show", folder.run_id]) == ExitCode.NOT_READY
    assert name in capsys.readouterr().err


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ([("remove_workloads", "finished", "")], None),
        (
            [("remove_workloads", "failed", "503"), ("remove_workloads", "finished", "")],
            None,
        ),
        (
            [("remove_workloads", "started", ""), ("remove_workloads", "failed", "pod x stays")],
            "remove_workloads: pod x stays",
        ),
        (
            [("remove_workloads", "finished", ""), ("bench_down", "failed", "broker stays")],
            "bench_down: broker stays",
        ),
        ([], "remove_workloads"),
    ],
)
def test_run_says_when_the_clean_up_failed(
    runs: Path, phases: list[tuple[str, str, str]], said: str | None
) -> None:
    """The reason of the last try stands below the verdict; the exit code stays the verdict's."""
    folder = judged(runs)
    lines = [
        json.dumps({"at": 1, "name": name, "state": state, "detail": detail}) + "\n"
        for name, state, detail in phases
    ]
    folder.write_text("phases.jsonl", "".join(lines))
    console = Terminal(width=80)
    with console.capture() as captured:
        code = run_command._conclude(console, folder.run_id)

    assert code == ExitCode.PASS
    assert ("clean-up" in captured.get()) == (said is not None)
    assert (said or "") in captured.get()


def judged(runs: Path) -> RunFolder:
    """Write a run that passes."""
    folder: RunFolder = quick_spike_run().write(runs)
    judge_run(folder)
    return folder


def exit_code(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    before = sys.argv
    sys.argv = ["lagbench", *arguments]
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = before
    return int(ended.value.code or 0)
