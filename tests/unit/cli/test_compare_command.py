"""``lagbench compare``: a table of two runs, pairs of more, kept runs, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fakes.compared_runs import MACHINE, write_run
from tests.unit.cli.conftest import Command

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.errors import ExitCode
from lagbench.results.compared_runs import NOISE_FLOORS_FILE, read_noise_floors


def write_pairs(root: Path, count: int = 8) -> list[str]:
    """Write runs of two policies with ``count`` seeds; return their ids in a mixed order."""
    for seed in range(count):
        write_run(root, f"a-{seed}", seed=seed, policy="slow", reaction=20 + seed % 3)
        write_run(root, f"b-{seed}", seed=seed, policy="fast", reaction=50 + seed % 2)
    return [f"{side}-{seed}" for seed in range(count) for side in "ab"]


def test_two_runs_are_a_table_without_a_test(lagbench: Command) -> None:
    """Both values and the difference of each measure; nothing is called significant."""
    write_run(lagbench.runs, "a", reaction=20)
    write_run(lagbench.runs, "b", reaction=25.5, policy="fast")
    answer = lagbench("compare", "a", "b")

    assert answer.code == ExitCode.PASS
    assert "Scale-out reaction, s 20.0 25.5 +5.5 –" in answer.text
    assert "Holm" not in answer.text
    assert "no noise floor of this cell" in answer.text


def test_runs_are_paired_by_seed(lagbench: Command) -> None:
    """Eight pairs, 30 s apart: the reaction differs, and p stands beside the lowest.

    The word vs divides the sides, and the first group is the first side.
    """
    runs = write_pairs(lagbench.runs)
    answer = lagbench("compare", *runs)
    by_hand = lagbench("compare", *sorted(runs)[8:], "vs", *sorted(runs)[:8])
    data = lagbench("compare", *runs, "--json", "--measure", "reaction_seconds")

    assert (answer.code, by_hand.code) == (ExitCode.PASS, ExitCode.PASS)
    assert "Scale-out reaction: +29.6 s" in answer.text
    assert "p 0.0078 (lowest possible 0.0078), Holm 0.0078" in answer.text
    assert "Scale-out reaction: -29.6 s" in by_hand.text
    found = {each["name"]: each["verdict"] for each in json.loads(data.out)}
    assert (found["reaction_seconds"], found["pod_minutes"]) == ("differs", "listed")


def test_a_bound_may_be_stated(lagbench: Command) -> None:
    """It takes the place of the gate's 16 s, and brings in a measure without one."""
    stated = ("--bound", "reaction_seconds=50", "--bound", "max_replicas=1")
    text = lagbench("compare", *write_pairs(lagbench.runs), *stated).text

    assert "bound of 50.0 s" in text
    assert "Most replicas: " in text


def test_a_number_of_pairs_outside_the_plan_is_refused(lagbench: Command) -> None:
    """Seven pairs are no planned look, unless they were planned."""
    runs = write_pairs(lagbench.runs, 7)
    answer = lagbench("compare", *runs)

    assert answer.code == ExitCode.WRONG_INPUT
    assert "6, 8, 12" in answer.text
    assert lagbench("compare", *runs, "--looks", "7").code == ExitCode.PASS


def test_runs_that_are_not_comparable_are_refused_with_each_reason(lagbench: Command) -> None:
    """Another machine and an undetermined verdict: exit code 2, both named, nothing compared.

    A field that differs on purpose is named by --vary.
    """
    other = MACHINE | {"cores": 4}
    write_run(lagbench.runs, "a")
    write_run(lagbench.runs, "b", policy="fast", machine=other, verdict="undetermined")
    write_run(lagbench.runs, "c", scenario={"consumer": {"balancer": "range"}})
    machine, balancer = lagbench("compare", "a", "b"), lagbench("compare", "a", "c")

    assert machine.code == balancer.code == ExitCode.WRONG_INPUT
    assert "machine.cores: 2 against 4" in machine.text
    assert "so it is" in machine.text
    assert "--vary" not in machine.text
    assert "--vary consumer.balancer" in balancer.text
    varied = lagbench("compare", "a", "c", "--vary", "consumer.balancer")
    assert varied.code == ExitCode.PASS


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("a-0", "runs = 'a-0'"),
        ("a-0 a-0", "runs = 'a-0, a-0'"),
        ("a-0 b-0 a-1", "seed 1 = "),
        ("a-0 a-1 a-2", "policies = "),
        ("a-0 vs", "runs = 'a-0 vs'"),
        ("a-0 b-0 a-1 b-1 --looks two", "--looks = 'two'"),
        ("a-0 b-0 a-1 b-1 --looks 2 --measure lost", "reaction_seconds"),
        ("a-0 b-0 a-1 b-1 --looks 2 --bound flips", "--bound = 'flips'"),
        ("a-0 b-0 a-1 b-1 --looks 2 --bound lost=1", "pod_minutes"),
        ("a-0 b-0 --json", "--json = '2 runs'"),
        ("a-0 a-1 vs b-0 c-1 --looks 2", "c-1"),  # a side with two policies is no side
        ("--keep-noise-floor a-0 b-0", "one policy"),
        ("--keep-noise-floor a-0 a-1", ""),
    ],
)
def test_wrong_arguments_are_refused(lagbench: Command, arguments: str, named: str) -> None:
    """Each by its name and value, or with what is allowed, and exit code 2; nothing is kept."""
    write_pairs(lagbench.runs, 3)
    write_run(lagbench.runs, "c-1", seed=1, policy="third")
    answer = lagbench("compare", *arguments.split())

    assert answer.code == ExitCode.WRONG_INPUT
    assert named in answer.text
    assert not (lagbench.runs / NOISE_FLOORS_FILE).exists()


def test_a_noise_floor_is_kept_and_printed_beside_each_difference(lagbench: Command) -> None:
    """Six A/A pairs, 2 s apart: it becomes the bound of later comparisons of that cell."""
    for seed in range(6):
        for side, reaction in (("x", 20.0), ("y", 22.0)):
            write_run(lagbench.runs, f"{side}-{seed}", seed=seed, reaction=reaction)
    runs = [f"{side}-{seed}" for side in "xy" for seed in range(6)]
    answer = lagbench("compare", "--keep-noise-floor", *runs)

    assert answer.code == ExitCode.PASS
    assert "Scale-out reaction, s 4.9 6" in answer.text
    (floor,) = read_noise_floors(lagbench.runs)
    assert (floor.policy, floor.seeds) == ("slow", (0, 1, 2, 3, 4, 5))
    text = lagbench("compare", *write_pairs(lagbench.runs)).text
    assert "bound of 4.9 s" in text
    assert "quick_spike with slow, 6 pairs" in text


def test_a_broken_file_of_noise_floors_is_named(lagbench: Command) -> None:
    """File, field and value, exit code 2."""
    write_run(lagbench.runs, "a")
    write_run(lagbench.runs, "b", policy="fast")
    (lagbench.runs / NOISE_FLOORS_FILE).write_text('{"floors": [{"scenario": 1}]}')
    answer = lagbench("compare", "a", "b")

    assert answer.code == ExitCode.WRONG_INPUT
    assert NOISE_FLOORS_FILE in answer.text
    assert "floors.0.scenario" in answer.text


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Return a file that keeps the runs ``one-1``, which failed, and ``one-2``."""
    folder = ExperimentFolder(tmp_path / "kept")
    folder.keep(write_run(tmp_path / "elsewhere", "one-1", verdict="fail"), {})
    folder.keep(write_run(tmp_path / "elsewhere", "one-2", reaction=25.5, policy="fast"), {})
    return folder.kept


def test_a_kept_run_is_shown_reported_and_compared(kept: Path, lagbench: Command) -> None:
    """Its page lies in the runs folder, whose list of runs does not change."""
    write_run(lagbench.runs, "b", reaction=20)
    page = lagbench.runs / "_kept/one-2/report.html"
    shown, reported = lagbench("show", f"{kept}#one-1"), lagbench("report", f"{kept}#one-2")
    compared = lagbench("compare", "b", f"{kept}#one-2")

    assert shown.code == ExitCode.SLO_FAILED
    assert "verdict of one-1" in shown.text
    assert (reported.code, compared.code) == (ExitCode.PASS, ExitCode.PASS)
    assert reported.text.endswith(f"report: {page}")
    assert "25.5 s" in page.read_text()
    assert "one-2" not in lagbench("show").text
    assert "Scale-out reaction, s 20.0 25.5 +5.5 –" in compared.text


@pytest.mark.parametrize("command", ["show", "report", "compare", "account", "baseline", "watch"])
def test_a_wrong_kept_run_is_wrong_input(command: str, kept: Path, lagbench: Command) -> None:
    """An ambiguous name; and a command that needs what is not kept takes no kept run at all."""
    answer = lagbench(command, f"{kept}#one", *(["b"] if command == "compare" else []))

    assert answer.code == ExitCode.WRONG_INPUT
    assert f"{kept}#one" in answer.text
