"""``lagbench compare``: a table of two runs, pairs of more, and refusals."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fakes.compared_runs import MACHINE, write_run

from lagbench.cli import main
from lagbench.errors import ExitCode
from lagbench.results.compared_runs import NOISE_FLOORS_FILE, read_noise_floors

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty runs folder."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def compare(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs the command and returns exit code and output."""

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["lagbench", "compare", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        found = capsys.readouterr()
        return int(str(ended.value.code)), " ".join((found.out + found.err).split())

    return run


def write_pairs(root: Path, count: int = 8, *, by: float = 30.0) -> list[str]:
    """Write runs of two policies with ``count`` seeds; return their ids in a mixed order."""
    for seed in range(count):
        write_run(root, f"a-{seed}", seed=seed, policy="slow", reaction=20 + seed % 3)
        write_run(root, f"b-{seed}", seed=seed, policy="fast", reaction=20 + by + seed % 2)
    return [f"{side}-{seed}" for seed in range(count) for side in "ab"]


def test_two_runs_are_a_table_without_a_test(root: Path, compare: Command) -> None:
    """Both values and the difference of each measure; nothing is called significant."""
    write_run(root, "a", reaction=20)
    write_run(root, "b", reaction=25.5, policy="fast")

    code, text = compare("a", "b")

    assert code == ExitCode.PASS
    assert "Scale-out reaction, s 20.0 25.5 +5.5 –" in text
    assert "Holm" not in text
    assert "no noise floor of this cell" in text


def test_runs_of_two_policies_are_paired_by_seed(root: Path, compare: Command) -> None:
    """Eight pairs, 30 s apart: the reaction differs, and p stands beside the lowest."""
    code, text = compare(*write_pairs(root))

    assert code == ExitCode.PASS
    assert "Scale-out reaction: +29.6 s" in text
    assert "p 0.0078 (lowest possible 0.0078), Holm 0.0078" in text


def test_groups_may_be_given_by_hand(root: Path, compare: Command) -> None:
    """The word vs divides the sides, and the first group is the first side."""
    write_pairs(root)
    sides = ([f"{side}-{seed}" for seed in range(8)] for side in "ba")

    code, text = compare(*next(sides), "vs", *next(sides))

    assert code == ExitCode.PASS
    assert "Scale-out reaction: -29.6 s" in text


def test_json_has_every_measure(root: Path, compare: Command) -> None:
    """The same differences as data."""
    _, text = compare(*write_pairs(root), "--json", "--measure", "reaction_seconds")

    found = {each["name"]: each for each in json.loads(text)}
    assert found["reaction_seconds"]["verdict"] == "differs"
    assert found["pod_minutes"]["verdict"] == "listed"


def test_a_bound_may_be_stated(root: Path, compare: Command) -> None:
    """It takes the place of the gate's 16 s, and brings in a measure without one."""
    runs = write_pairs(root)

    stated = ("--bound", "reaction_seconds=50", "--bound", "max_replicas=1")

    text = compare(*runs, *stated)[1]
    assert "bound of 50.0 s" in text
    assert "Most replicas: " in text


def test_a_number_of_pairs_outside_the_plan_is_refused(root: Path, compare: Command) -> None:
    """Seven pairs are no planned look, unless they were planned."""
    runs = write_pairs(root, 7)

    assert compare(*runs)[0] == ExitCode.WRONG_INPUT
    assert "6, 8, 12" in compare(*runs)[1]
    assert compare(*runs, "--looks", "7")[0] == ExitCode.PASS


def test_runs_that_are_not_comparable_are_refused_with_each_reason(
    root: Path, compare: Command
) -> None:
    """Another machine and an undetermined verdict: exit code 2, both named, nothing compared."""
    write_run(root, "a")
    write_run(root, "b", policy="fast", machine=MACHINE | {"cores": 4}, verdict="undetermined")

    code, text = compare("a", "b")

    assert code == ExitCode.WRONG_INPUT
    assert "machine.cores: 2 against 4" in text
    assert "--vary" not in text
    assert "so it is" in text


def test_a_field_that_differs_on_purpose_is_named(root: Path, compare: Command) -> None:
    """Two balancers are compared only if the command says so."""
    write_run(root, "a")
    write_run(root, "b", scenario={"consumer": {"balancer": "range"}})

    code, text = compare("a", "b")
    assert code == ExitCode.WRONG_INPUT
    assert "--vary consumer.balancer" in " ".join(text.split())
    assert compare("a", "b", "--vary", "consumer.balancer")[0] == ExitCode.PASS


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["a-0"], "runs = 'a-0'"),
        (["a-0", "a-0"], "runs = 'a-0, a-0'"),
        (["a-0", "b-0", "a-1"], "seed 1 = "),
        (["a-0", "a-1", "a-2"], "policies = "),
        (["a-0", "vs"], "runs = 'a-0 vs'"),
        (["a-0", "b-0", "a-1", "b-1", "--looks", "two"], "--looks = 'two'"),
        (["a-0", "b-0", "a-1", "b-1", "--looks", "2", "--measure", "lost"], "reaction_seconds"),
        (["a-0", "b-0", "a-1", "b-1", "--looks", "2", "--bound", "flips"], "--bound = 'flips'"),
        (["a-0", "b-0", "a-1", "b-1", "--looks", "2", "--bound", "lost=1"], "pod_minutes"),
        (["a-0", "b-0", "--json"], "--json = '2 runs'"),
    ],
)
def test_wrong_arguments_are_refused(
    root: Path, compare: Command, arguments: list[str], named: str
) -> None:
    """Each by its name and value, or with what is allowed, and exit code 2."""
    write_pairs(root, 3)

    code, text = compare(*arguments)

    assert code == ExitCode.WRONG_INPUT
    assert named in text


def test_runs_of_one_side_are_of_one_cell(root: Path, compare: Command) -> None:
    """A side with two policies is no side."""
    runs = write_pairs(root, 2)
    write_run(root, "b-1", seed=1, policy="third")

    code, text = compare("a-0", "a-1", "vs", "b-0", "b-1", "--looks", "2")

    assert runs
    assert code == ExitCode.WRONG_INPUT
    assert "b-1" in text


def test_a_noise_floor_is_kept_and_printed_beside_each_difference(
    root: Path, compare: Command
) -> None:
    """Six A/A pairs, 2 s apart: it becomes the bound of later comparisons of that cell."""
    for seed in range(6):
        for side, reaction in (("x", 20.0), ("y", 22.0)):
            write_run(root, f"{side}-{seed}", seed=seed, reaction=reaction)
    runs = [f"{side}-{seed}" for side in "xy" for seed in range(6)]

    code, text = compare("--keep-noise-floor", *runs)

    assert code == ExitCode.PASS
    assert "Scale-out reaction, s 4.9 6" in text
    (floor,) = read_noise_floors(root)
    assert (floor.policy, floor.seeds) == ("slow", (0, 1, 2, 3, 4, 5))
    text = compare(*write_pairs(root))[1]
    assert "bound of 4.9 s" in text
    assert "quick_spike with slow, 6 pairs" in text


def test_a_noise_floor_is_of_one_cell(root: Path, compare: Command) -> None:
    """Two policies are no A/A, and two pairs are too few; nothing is kept."""
    runs = write_pairs(root, 6)

    assert "allowed: one policy" in compare("--keep-noise-floor", *runs)[1]
    assert compare("--keep-noise-floor", *runs[:4])[0] == ExitCode.WRONG_INPUT
    assert not (root / NOISE_FLOORS_FILE).exists()


def test_a_broken_file_of_noise_floors_is_named(root: Path, compare: Command) -> None:
    """File, field and value, exit code 2."""
    (root / NOISE_FLOORS_FILE).write_text('{"floors": [{"scenario": 1}]}')
    write_run(root, "a")
    write_run(root, "b", policy="fast")

    code, text = compare("a", "b")

    assert code == ExitCode.WRONG_INPUT
    assert NOISE_FLOORS_FILE in text
    assert "floors.0.scenario" in text
