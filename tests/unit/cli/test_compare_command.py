"""``lagbench compare``: a table of two runs, pairs of more, kept runs, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fakes.compared_runs import MACHINE, write_run
from tests.fakes.experiments import experiment
from tests.fakes.experiments import write_run as write_experiment_run
from tests.unit.cli.conftest import Command

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.core.measures.measures import NAMED
from lagbench.errors import ExitCode
from lagbench.results.compared_runs import NOISE_FLOORS_FILE, read_noise_floors
from lagbench.results.executions import read_progress, record_run, start_execution
from lagbench.results.history import HISTORY_FILE, update_history


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
    assert "Scale-out reaction, s 20.0 25.5 +5.5 small" in answer.text
    assert "Holm" not in answer.text
    assert "no noise floor of this cell" in answer.text


def test_two_runs_show_what_differs_and_which_is_better(lagbench: Command) -> None:
    """Equal and missing measures are left out; the sides are named by what varies."""
    write_run(lagbench.runs, "a", reaction=20, scenario={"consumer": {"balancer": "range"}})
    write_run(lagbench.runs, "b", reaction=50)
    vary = ("compare", "a", "b", "--vary", "consumer")
    few, every = lagbench(*vary), lagbench(*vary, "--all")

    rows = [line.split() for line in few.out.splitlines() if line.startswith(" ")]
    assert rows[1:] == [["Scale-out", "reaction,", "s", "20.0", "50.0", "+30.0", "worse"]]
    assert len(every.out.splitlines()) > len(NAMED)
    sides = [line.split(": ")[0] for line in few.out.splitlines()[:2]]
    assert sides[0] == "first   consumer.balancer=range"
    assert sides[1].startswith("second  consumer.balancer=")
    assert "better" in lagbench("compare", "b", "a", "--vary", "consumer").out


def test_two_to_six_runs_are_a_page(lagbench: Command) -> None:
    """A file of its own, without links to a server; more runs are refused, and no file written."""
    runs = write_pairs(lagbench.runs, count=3)
    page = lagbench.runs / "page.html"

    assert lagbench("compare", *runs, "--html", str(page)).code == ExitCode.PASS
    html = page.read_text()
    assert "fast minus slow, 3 pairs" in html
    assert "href=" not in html.replace('href="#content"', "")
    page.unlink()
    answer = lagbench("compare", *runs, *runs[:1], "--html", str(page))
    assert answer.code == ExitCode.WRONG_INPUT
    assert not page.exists()


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


def executed(home: Path, name: str, target: str, *, adds: float, without: int = 0) -> str:
    """Execute a tiny experiment on a target; return its folder."""
    folder = start_execution(
        experiment(), target=target, started_by="command", now=1, at=ExperimentFolder(home / name)
    )
    for run in read_progress(folder).schedule.runs:
        if run.seed != without:
            reaction = 10 + run.seed + adds * (1 + run.seed / 100)
            made = write_experiment_run(home / f"{name}-runs", run, reaction=reaction)
            made.update_manifest(cell={"target": target})
            measures = made.read_json(made.measures) | {"fidelity": "kubernetes"}
            if target != "embedded":
                made.write_json(made.measures, measures)
            record_run(folder, run, made, now=2)
    return str(folder.path)


def test_two_executions_are_compared_by_seed(lagbench: Command) -> None:
    """Of a cell that is named; a seed without a partner is left out, and targets may differ."""
    first = executed(lagbench.home, "first", "embedded", adds=0)
    second = executed(lagbench.home, "second", "cluster 1", adds=3, without=5)
    cells = ("compare", f"{first}#calm", "vs", f"{second}#calm")
    options = ("--vary", "target", "--measure", "reaction_seconds", "--bound", "reaction_seconds=1")
    shown, data, page = (
        lagbench(*cells, *options, *more) for more in ((), ("--json",), ("--markdown",))
    )

    (found,) = [one for one in json.loads(data.out)["differences"] if one["verdict"] != "listed"]
    assert (found["name"], found["n"]) == ("reaction_seconds", 5)
    assert found["low"] < 3.1 < found["high"]
    assert "left out: seed 5: " in shown.text
    assert "## kubernetes minus processes, 5 pairs" in page.out
    assert "another target" in lagbench(*cells).text
    for wrong in (first, f"{first}#other"):
        assert lagbench("compare", wrong, f"{second}#calm").code == ExitCode.WRONG_INPUT


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("a-0", "runs = 'a-0'"),
        ("a-0 b-0 --markdown", "--markdown = "),
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
    assert "Scale-out reaction, s 20.0 25.5 +5.5 small" in compared.text


@pytest.mark.parametrize("command", ["show", "report", "compare", "account", "baseline", "watch"])
def test_a_wrong_kept_run_is_wrong_input(command: str, kept: Path, lagbench: Command) -> None:
    """An ambiguous name; and a command that needs what is not kept takes no kept run at all."""
    answer = lagbench(command, f"{kept}#one", *(["b"] if command == "compare" else []))

    assert answer.code == ExitCode.WRONG_INPUT
    assert f"{kept}#one" in answer.text


POLICIES = Path(__file__).resolve().parents[3] / "k8s" / "policies"


def test_json_has_each_cell_and_its_timeline(lagbench: Command) -> None:
    """A recorded spike at its own phase: 2 to 6 at 25.1 s, 12 one sync later, as it really was.

    Its load had no tail.
    """
    flags = ["--seed", "11", "--sync-at", "25.1", "--json", "--timeline", "--set", "tail=none"]

    answer = lagbench("simulate", "quick_spike", "--policy", "lag-quick", *flags)

    found = json.loads(answer.out)["lag-quick"]
    line = found["cells"][0]["timeline"]
    replicas = dict(zip(line["second"], line["spec_replicas"], strict=True))
    assert answer.code == ExitCode.PASS
    assert found["cells"][0]["fidelity"] == "simulated"
    assert (replicas[10.06], replicas[25.1], replicas[40.25]) == (2, 6, 12)
    assert found["summary"]["drain_seconds"]["median"] == pytest.approx(77, abs=2)


def test_a_cron_window_is_simulated_at_the_wanted_time_of_day(lagbench: Command) -> None:
    """The policy holds six pods from 8:00 in Berlin on a working day, and two before."""
    replicas = {}
    for start in ("2026-11-23T05:00:00Z", "2026-11-23T08:00:00+01:00"):
        flags = ["--policy", "cron-prewarm-plus-lag", "--seed", "1", "--start", start]
        answer = lagbench("simulate", "steady", *flags, "--json", "--timeline")
        cells = json.loads(answer.out)["cron-prewarm-plus-lag"]["cells"]
        line = cells[0]["timeline"]
        replicas[start] = {
            wanted
            for second, wanted in zip(line["second"], line["spec_replicas"], strict=True)
            if second > 60
        }

    assert list(replicas.values()) == [{2}, {6}]


@pytest.mark.parametrize("start", ["2026-11-23T08:59:30", "tomorrow"])
def test_a_start_without_a_time_zone_is_rejected(start: str, lagbench: Command) -> None:
    """A wall clock alone is no instant; the message names the flag and an example."""
    answer = lagbench("simulate", "quick_spike", "--start", start)

    assert (answer.code, "--start" in answer.err) == (ExitCode.WRONG_INPUT, True)


def test_a_swap_is_simulated_and_what_is_not_is_named(lagbench: Command) -> None:
    """From second 5 on the policy is one on CPU, which stays at 2 replicas."""
    actions = (
        "actions=[{kind: swap_policy, at_seconds: 5, policy: cpu-only}, "
        "{kind: pause_pod, at_seconds: 6, for_seconds: 1}]"
    )

    answer = lagbench("simulate", "quick_spike", "--seed", "11", "--set", actions, "--json")

    (found,) = json.loads(answer.out).values()
    assert found["summary"]["max_replicas"]["median"] == 2
    assert "pause_pod" in answer.err
    assert "swap_policy" not in answer.err


def test_two_policies_of_one_name_are_rejected(tmp_path: Path, lagbench: Command) -> None:
    """One of two columns would vanish without a word."""
    text = (POLICIES / "lag-quick.yaml").read_text()
    files = [tmp_path / side / "policy.yaml" for side in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text(text)
    flags = [part for file in files for part in ("--policy", str(file))]

    answer = lagbench("simulate", "quick_spike", *flags, "--seed", "1")
    assert answer.code == ExitCode.WRONG_INPUT
    assert "policy, 2 times" in answer.err


LONG_ID = "quick-spike-20261123-170813-77de"


def test_each_cell_is_a_line(lagbench: Command) -> None:
    """Two seeds are two cells; each has its runs and the newest one; at first there is none.

    A folder whose scenario was changed is of no cell, and is counted.
    """
    nothing = lagbench("history")
    assert (nothing.code, nothing.text) == (ExitCode.PASS, "no runs yet: lagbench run hello")
    for number, seed in enumerate((1, 1, 2)):
        update_history(write_run(lagbench.runs, f"run-{number}", seed=seed, created_at=number))
    changed = write_run(lagbench.runs, "changed")
    changed.write_text(changed.scenario, "name: 7")
    update_history(changed)
    text = lagbench("history").text

    for named in ("quick_spike/slow/1", "quick_spike/slow/2", "2 run-1 1970-01-01"):
        assert named in text
    assert text.endswith("runs without a readable cell: 1")


def test_a_run_id_is_whole_in_a_narrow_terminal(lagbench: Command) -> None:
    """Ids and values are never cut, as the next command needs them."""
    lagbench.monkeypatch.setenv("COLUMNS", "40")
    update_history(write_run(lagbench.runs, LONG_ID))

    for arguments in ((), ("quick_spike",)):
        text = lagbench("history", *arguments).text
        assert LONG_ID in text
        assert "…" not in text


def test_a_cell_shows_its_runs_and_its_changes(lagbench: Command) -> None:
    """By scenario, policy and seed, or by the beginning of its name."""
    for night in range(26):
        reaction = (20 if night < 20 else 60) + night % 3 / 10
        name = f"run-{night:02}"
        update_history(write_run(lagbench.runs, name, created_at=night, reaction=reaction))
    answer = lagbench("history", "quick_spike/slow/1")

    assert answer.code == ExitCode.PASS
    assert lagbench("history", "quick_spike") == answer
    assert "run-20: 20.1 s -> 60.1 s" in answer.text
    assert "run-25 1970-01-01" in answer.text


@pytest.mark.parametrize("name", ["quick", "quick_spike/s", "other"])
def test_an_unknown_cell_is_refused(lagbench: Command, name: str) -> None:
    """With the names of the cells there are; a part of a name is none."""
    update_history(write_run(lagbench.runs, "run"))
    answer = lagbench("history", name)

    assert answer.code == ExitCode.WRONG_INPUT
    assert "quick_spike/slow/1" in answer.text


def test_rebuild_makes_it_from_the_folders(lagbench: Command) -> None:
    """The number of lines is printed, and a run folder with another content with the reason."""
    write_run(lagbench.runs, "run")
    folder = write_run(lagbench.runs, "other")
    folder.write_json(folder.manifest, {"created_at": "yesterday"})
    answer = lagbench("history", "--rebuild")

    assert answer.code == ExitCode.PASS
    assert answer.text.startswith("history: 1 runs, 0 ")
    assert "run other" in answer.text
    assert (lagbench.runs / HISTORY_FILE).exists()
