"""``lagbench show``: the list of runs, and a verdict as the exit code; the end of ``run``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fakes.run_folder_builder import quick_spike_run
from tests.unit.cli.conftest import Command

from lagbench.adapters.runs.run_folder import RunFolder, list_runs
from lagbench.cli import run_command
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
def runs(lagbench: Command) -> Path:
    """Return a runs folder with a judged run, whose id is as long as ids may be."""
    folder = RunFolder.create(LONGEST_ID, lagbench.runs)
    folder.write_json(folder.manifest, FIGURES)
    folder.write_json(folder.verdict, {"status": "undetermined"})
    return lagbench.runs


def printed(runs: Path, *, columns: int) -> list[str]:
    """Return the lines of the list on a terminal."""
    console = Terminal(width=columns, force_terminal=True, color_system=None)
    with console.capture() as captured:
        print_runs(console, list_runs(runs))
    return captured.get().splitlines()


def test_a_run_id_is_whole_at_80_columns(runs: Path) -> None:
    """Id and verdict stand on one line; the last line names what had no room, and its width."""
    heading, run, left_out = printed(runs, columns=80)

    assert heading.split() == ["run", "verdict"]
    assert run.split() == [LONGEST_ID, "undetermined"]
    assert max(len(line) for line in (heading, run, left_out)) <= 80
    named = left_out.partition(":")[0].split(", ")
    assert named == ["policy", "began", "scenario", "seed", "fidelity"]
    wide = printed(runs, columns=int(left_out.split()[-2]))
    assert len(wide) == 2
    assert FIGURES["policy"] in wide[1].split()
    assert "…" not in wide[1]


def test_a_pipe_gets_all_columns(lagbench: Command, runs: Path) -> None:
    """``lagbench show | grep`` finds scenario, policy and fidelity on the line of the run."""
    answer = lagbench("show")
    line = answer.out.splitlines()[1].split()

    assert answer.code == ExitCode.PASS
    assert [one.run_id for one in list_runs(runs)] == [LONGEST_ID]
    assert (*line[:3], line[-1]) == (LONGEST_ID, "undetermined", FIGURES["policy"], "kubernetes")


def judged(runs: Path) -> RunFolder:
    """Write a run that passes."""
    folder: RunFolder = quick_spike_run().write(runs)
    judge_run(folder)
    return folder


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("pass", ExitCode.PASS),
        ("fail", ExitCode.SLO_FAILED),
        ("undetermined", ExitCode.UNDETERMINED),
    ],
)
def test_the_exit_code_is_the_verdict_s(lagbench: Command, status: str, code: ExitCode) -> None:
    """A script that asks ``show RUN`` learns what ``run`` would have returned."""
    folder = judged(lagbench.runs)
    verdict = folder.read_json(folder.verdict)
    folder.write_json(folder.verdict, verdict | {"status": status})

    assert lagbench("show", folder.run_id).code == code


def test_a_run_without_a_verdict_is_not_ready(lagbench: Command) -> None:
    """Exit code 3: nothing is known yet."""
    folder = RunFolder.create("still-going", lagbench.runs)
    folder.write_json(folder.manifest, FIGURES)
    answer = lagbench("show", "still-going")

    assert answer.code == ExitCode.NOT_READY
    assert "verdict.json" in answer.err


@pytest.mark.parametrize("name", ["measures.json", "accounting.json"])
def test_a_verdict_of_other_files_is_not_shown(lagbench: Command, name: str) -> None:
    """What the verdict rests on was changed since: it is none of this folder any more."""
    folder = judged(lagbench.runs)
    folder.write_text(name, folder.read_text(name).replace("7", "8", 1))
    answer = lagbench("show", folder.run_id)

    assert answer.code == ExitCode.NOT_READY
    assert name in answer.err


REMOVED = ("remove_workloads", "finished", "")


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ([REMOVED], None),
        ([("remove_workloads", "failed", "503"), REMOVED], None),
        ([("remove_workloads", "failed", "pod x stays")], "remove_workloads: pod x stays"),
        ([REMOVED, ("bench_down", "failed", "broker stays")], "bench_down: broker stays"),
        ([], "remove_workloads"),
    ],
)
def test_run_says_when_the_clean_up_failed(
    lagbench: Command, phases: list[tuple[str, str, str]], said: str | None
) -> None:
    """The reason of the last try stands below the verdict; the exit code stays the verdict's."""
    folder = judged(lagbench.runs)
    names = ("name", "state", "detail")
    lines = [json.dumps({"at": 1, **dict(zip(names, phase, strict=True))}) for phase in phases]
    folder.write_text("phases.jsonl", "".join(f"{line}\n" for line in lines))
    console = Terminal(width=80)
    with console.capture() as captured:
        code = run_command._conclude(console, folder.run_id)

    assert code == ExitCode.PASS
    assert ("clean-up" in captured.get()) == (said is not None)
    assert (said or "") in captured.get()


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("slos.reaction_seconds=0.5", ExitCode.SLO_FAILED),
        ("slos.reaction=1", ExitCode.WRONG_INPUT),
        ("slos.reaction_seconds=soon", ExitCode.WRONG_INPUT),
        ("partitions=3", ExitCode.WRONG_INPUT),
    ],
)
def test_report_judges_by_another_limit(lagbench: Command, setting: str, code: ExitCode) -> None:
    """The run's own verdict stays as it is."""
    folder = judged(lagbench.runs)

    assert lagbench("report", folder.run_id, "--set", setting).code == code
    assert lagbench("show", folder.run_id).code == ExitCode.PASS
