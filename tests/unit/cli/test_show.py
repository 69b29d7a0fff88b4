"""``lagbench show``: the list of runs, and a verdict as the exit code; the end of ``run``."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from tests.fakes.nights import rehearse, write_night
from tests.fakes.run_folder_builder import quick_spike_run
from tests.fakes.two_groups import two_groups
from tests.unit.cli.conftest import Command

from lagbench.adapters.runs.run_folder import RunFolder, list_runs
from lagbench.cli import run_command
from lagbench.cli.observe_command import reading_text
from lagbench.cli.run_command import _conclude as conclude
from lagbench.cli.terminal import Terminal
from lagbench.cli.verdict_table import print_comparison, print_runs, print_verdict
from lagbench.core.telemetry.records_of_recorder import GroupSample, LagSample, ReplicaSample
from lagbench.errors import ExitCode
from lagbench.project import PROJECT_ROOT
from lagbench.report.outcome_files import write_junit
from lagbench.results.gate import accept
from lagbench.results.measure_run import judge_run
from pod_program.shown import printable

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

    answer = lagbench("show", folder.run_id)

    assert answer.code == code
    assert ("next: change one thing" in answer.out) is (status == "fail")


def test_a_what_if_answers_the_limit_that_was_asked_first(lagbench: Command) -> None:
    """The run's verdict comes after it; a near name is told."""
    folder = judged(lagbench.runs)
    asked = lagbench("report", folder.run_id, "--slo", "time_lag_p99_seconds=0.01")

    assert asked.out.startswith("fail: Time lag p99")
    assert asked.code == ExitCode.SLO_FAILED
    assert lagbench("report", "--slo", "drain=1").err.endswith("allowed: drain_seconds\n")


@pytest.mark.parametrize("name", ["verdict.json", "measures.json", "accounting.json"])
def test_a_verdict_of_other_files_is_not_shown(lagbench: Command, name: str) -> None:
    """What it rests on was changed since, or there is none yet: exit code 3."""
    folder = judged(lagbench.runs)
    if name == "verdict.json":
        folder.verdict.unlink()
    else:
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


MARKS = {"pass": "✓", "fail": "✗", "undetermined": "?", "not_judged": "·"}


def said(folder: RunFolder) -> str:
    """Judge the run and return what is printed of it."""
    judge_run(folder)
    return "\n".join(lines_of(folder, columns=400))


def lines_of(folder: RunFolder, *, columns: int) -> list[str]:
    """Return the lines that are printed of a judged run."""
    console = Terminal(width=columns)
    with console.capture() as captured:
        print_verdict(console, folder)
    return captured.get().splitlines()


def compared(folder: RunFolder) -> str:
    """Return what is said of the gate at 80 columns."""
    console = Terminal(width=80)
    with console.capture() as captured:
        print_comparison(console, folder)
    return captured.get()


def test_marks_and_values_are_whole_at_80_columns(tmp_path: Path) -> None:
    """The longest title of a second group takes neither the mark nor the value of its row."""
    folder = two_groups(tmp_path, reaction_seconds=1)
    verdict = judge_run(folder)

    rows = lines_of(folder, columns=80)

    for slo in verdict.slos:
        assert any(
            row.strip().startswith(MARKS[slo.status])
            and slo.title in row
            and row.rstrip().endswith(slo.value_text)
            for row in rows
        ), slo.title


def test_a_reason_that_only_an_unjudged_slo_has_is_printed(tmp_path: Path) -> None:
    """The table has no reason of an SLO that is not judged, so an open end with it is printed."""
    folder: RunFolder = quick_spike_run().write(tmp_path)
    verdict = judge_run(folder)
    why = next(slo.reason for slo in verdict.slos if slo.status == "not_judged")
    opened = verdict.model_copy(
        update={"status": "undetermined", "reasons": (why,), "open_ends": (why,)}
    )
    folder.write_json(folder.verdict, opened.model_dump(mode="json"))

    rows = lines_of(folder, columns=400)

    assert why in rows[rows.index("? UNDETERMINED") + 1]
    assert sum(why in row for row in rows) == 1


def test_a_rehearsal_shows_what_the_gate_found(tmp_path: Path) -> None:
    """Both references with their numbers, why the night is red, and how to accept it."""
    rehearse(tmp_path, "night-1", created_at=1)
    rehearse(tmp_path, "night-2", created_at=2)
    rehearse(tmp_path, "night-3", created_at=3, reaction={"assigned_seconds": 80.0})
    red = RunFolder(tmp_path / "night-3")

    before = compared(red)
    accept(red, now=4)
    after = compared(red)

    assert "baseline night-1" in before
    assert "last night night-2" in before
    assert re.search(r" s +16\.5 +32\.5 +80\.0 +regressed", before)
    assert "gate: REGRESSED" in before
    assert "lagbench baseline night-3" in before
    assert "lagbench baseline" not in after
    assert "accepted" in after


def test_a_run_by_hand_shows_no_gate(tmp_path: Path) -> None:
    """Only rehearsals are compared."""
    assert compared(write_night(tmp_path, "by-hand", created_at=1)) == ""
    assert "gate:" not in said(quick_spike_run().write(tmp_path))


HOSTILE = (
    "\x1b[31mRED\x1b[0m \x1b]0;TITLE\x07\x9b2Jone\x9d52;c;AA\x9c \x07\x08\rtwo\x7f :x: [red]b[/red]"
)


@pytest.mark.parametrize("shape", ["text", "str", "table", "panel"])
def test_foreign_text_is_text(shape: str) -> None:
    """No escape reaches the terminal, in whatever it is laid out; rich's own colours do."""
    output = io.StringIO()
    console = Terminal(file=output, width=200, force_terminal=True, color_system="standard")
    table = Table("a")
    table.add_row(HOSTILE)
    shapes = {"text": Text(HOSTILE, "red"), "str": HOSTILE, "table": table, "panel": Panel(HOSTILE)}

    console.print(shapes[shape])

    written = re.sub(r"\x1b\[[\d;]*m", "", output.getvalue())
    assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", written) == []
    words = "RED one two :x: [red]b[/red]" if shape != "text" else ":x: [red]b[/red]"
    assert words in re.sub(" +", " ", written)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("a\nb\tc é", "a\nb\tc é"),
        ("a\x1b]0;never ended\nb", "a]0;never ended\nb"),
        ("a\u202eb\u2066", "ab"),
        ("\x1bPq\x1b\\a\x90x\x9cb", "ab"),
        ("\x9d" * 200_000, ""),  # each was once looked for to the end, which took minutes
    ],
)
def test_what_a_terminal_obeys_is_left_out(given: str, seen: str) -> None:
    """What begins a sequence without an end hides nothing, and is read once."""
    assert printable(given) == seen


def test_no_command_makes_a_console_of_its_own() -> None:
    """Nor does a plug-in."""
    files = [*PROJECT_ROOT.glob("include/lagbench/**/*.py"), *PROJECT_ROOT.glob("plugins/**/*.py")]
    makes = [one.name for one in files if re.search(r"\bConsole\(", one.read_text())]

    assert makes == []


S = 1_000_000_000


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        ([(0, 50, 20), (1, 10, 10)], "lag 30"),
        ([(0, 50, 20), (1, 10, None)], "lag –"),
        ([(0, 50, None)], "lag –"),
        ([(0, 50, 20), (1, 0, None)], "lag 30"),
        ([(0, 19, 20)], "lag 0"),
    ],
)
def test_an_unknown_lag_is_no_number(
    partitions: list[tuple[int, int, int | None]], told: str
) -> None:
    """A partition without a commit may have any lag, unless it has no message."""
    sample = LagSample(at=0, source="recorder", partitions=partitions)

    assert reading_text({"LagSample": sample}, now=0) == f"observing: {told}"


@pytest.mark.parametrize(
    ("seconds", "figures"),
    [(3, ["30", "2", "2", "3"]), (4, ["–", "–", "2", "3"]), (9, ["–", "–", "–"])],
)
def test_a_reading_that_is_not_renewed_is_no_longer_shown(seconds: int, figures: list[str]) -> None:
    """While Kafka or Kubernetes is away, the last reading says nothing of now."""
    newest = {
        "LagSample": LagSample(at=0, source="observer", partitions=[(0, 50, 20)]),
        "GroupSample": GroupSample(
            at=0, source="observer", state="stable", members=2, members_without_partitions=0
        ),
        "ReplicaSample": ReplicaSample(at=S, source="observer", spec=3, current=3, ready=2),
    }

    assert re.findall(r"\d+|–", reading_text(newest, now=seconds * S)) == figures


def test_a_job_of_github_gets_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind what earlier steps wrote."""
    folder = quick_spike_run().write(tmp_path)
    judge_run(folder)
    write_junit(folder)
    page = tmp_path / "page.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(folder.path.parent))

    conclude(Terminal(), folder.path.name)

    assert page.read_text() == f"before\n{(folder.path / 'summary.md').read_text()}"
    assert capsys.readouterr().out
