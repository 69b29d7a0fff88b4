"""An experiment from the terminal; a run is a function that leaves what a run leaves."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.fakes.experiments import BASE, write_run
from tests.unit.cli.conftest import Command

from lagbench.adapters.runs.experiment_folder import ExperimentFolder, executions
from lagbench.cli import asked_experiment, rehearsal
from lagbench.core.compare.experiment import PlannedRun
from lagbench.errors import ExitCode, NotReady, StillRunning
from lagbench.results.executions import read_progress

Conf = dict[str, Any]
How = Callable[[PlannedRun], dict[str, Any]]


class Home:
    """A home whose runs take no time."""

    def __init__(self, root: Path, lagbench: Command) -> None:
        """Begin without history, with an experiment in a file."""
        self.root, self.file = root, root / "tiny.yaml"
        self.confs: list[Conf] = []
        self.kept: ExperimentFolder | None = None
        self.kept_in: Path | None = None  # of several experiments
        self.name = "tiny"  # of the experiment that runs
        self.lagbench, self.runs = lagbench, lagbench.runs
        self.said = ""
        self.file.write_text(yaml.safe_dump(BASE))

    def run(self, *arguments: str, rehearse: Callable[[Conf], None] | None = None) -> int:
        """Call the command; returns the exit code, and keeps what was written in ``said``."""

        @contextmanager
        def opened_target(
            *_: object, purpose: str, **__: object
        ) -> Iterator[Callable[[Conf], None]]:
            self.name = purpose.removeprefix("experiment ")
            yield rehearse or self.rehearse()

        self.lagbench.monkeypatch.setattr(rehearsal, "opened_target", opened_target)
        answer = self.lagbench("experiment", *arguments)
        self.said = answer.out + answer.err
        return answer.code

    def rehearse(
        self, how: How = lambda _: {}, *, stop_at: int | None = None
    ) -> Callable[[Conf], None]:
        """Return a rehearsal that ends at once as ``how`` says; run ``stop_at`` is stopped."""

        def run(conf: Conf) -> None:
            self.confs.append(conf)
            if len(self.confs) == stop_at:
                raise KeyboardInterrupt
            progress = read_progress(self.folder)
            planned = progress.missing[0]
            root = self.root / "made" / conf["run_id"]
            made = write_run(root, planned, began_at=time.time_ns(), **how(planned))
            target = self.runs / conf["run_id"]
            target.parent.mkdir(parents=True, exist_ok=True)
            made.path.rename(target)

        return run

    @property
    def folder(self) -> ExperimentFolder:
        """Return the execution of ``--folder``, else the newest one."""
        if self.kept_in is not None:
            return ExperimentFolder(self.kept_in / self.name)
        return self.kept or executions(self.name, self.runs)[-1]

    def write(self, name: str, **changed: Any) -> str:
        """Write another experiment, and return its path."""
        file = self.root / f"{name}.yaml"
        file.write_text(yaml.safe_dump({**BASE, "name": name, **changed}))
        return str(file)

    @property
    def done(self) -> int:
        """Return how many runs of the newest execution are done."""
        return read_progress(self.folder).done


@pytest.fixture
def home(tmp_path: Path, lagbench: Command) -> Home:
    """Return a home."""
    return Home(tmp_path, lagbench)


def test_the_hours_are_printed_first(home: Home) -> None:
    """Then the runs in their recorded order, the table, and the path of the result."""
    assert home.run(str(home.file)) == ExitCode.PASS

    assert home.said.startswith("Tiny: about 1.0 hours, 6 pairs, 12 runs")
    assert "eager minus calm, 6 pairs" in home.said
    assert str(home.folder.page) in home.said.replace("\n", "")
    planned = [run.seed for run in read_progress(home.folder).schedule.runs]
    assert [int(conf["overrides"]["seed"]) for conf in home.confs] == planned
    assert json.loads(home.folder.result.read_text())["pairs"] == 6


def test_the_plan_starts_nothing(home: Home) -> None:
    """It prints hours, order and prediction; more pairs take more hours.

    Without a name the command lists the catalog.
    """
    assert home.run() == ExitCode.PASS
    assert "rebalance_dip" in home.said
    assert "aa_quick_spike" in home.said
    assert home.run(str(home.file), "--plan", "--pairs", "12") == ExitCode.PASS

    assert "about 2.0 hours, 12 pairs, 24 runs" in home.said
    assert "consumer.balancer=range" in home.said
    assert "differences to calm" in home.said
    assert home.confs == []
    assert executions("tiny", home.runs) == []


def test_a_plan_for_a_cluster_names_the_cells_that_cannot_run_there(home: Home) -> None:
    """The others are chosen with --cell, and take their part of the hours; two pairs are listed.

    A small node has room for many pods if each requests less.
    """
    there = ("--target", "context:x", "--plan")
    assert home.run("scale_down_loss", *there) == ExitCode.PASS
    words = " ".join(home.said.split())
    assert re.findall(r"! cell (\w+) cannot", words) == ["killed", "transactional"]

    chosen = ("--cell", "keda", "--cell", "keda_window", "--pairs", "2")
    assert home.run("hand_rolled", *there, *chosen) == ExitCode.PASS
    assert "about 0.3 hours, 2 pairs, 4 runs" in home.said
    assert "cannot run there" not in home.said
    assert home.run("past_p", *there, "--set", "consumer.cpu_request_millicores=50") == 0
    assert "consumer.cpu_request_m" in home.said
    for wrong in ("keda", "nobody"):  # a difference needs two cells
        assert home.run("hand_rolled", *there, "--cell", wrong) == ExitCode.WRONG_INPUT
        assert "cells = " in home.said


def test_a_stopped_experiment_goes_on(home: Home) -> None:
    """Ctrl-C in the fourth run keeps three; the next call repeats the fourth and ends."""
    assert home.run(str(home.file), rehearse=home.rehearse(stop_at=4)) == 130
    first = home.folder
    assert home.done == 3
    assert "3 of 12 runs" in home.said

    assert home.run(str(home.file)) == ExitCode.PASS

    assert home.folder == first
    assert len(home.confs) == 13
    assert home.confs[3]["overrides"] == home.confs[4]["overrides"]
    assert "3 of 12 runs" in home.said
    assert "0.8 hours" in home.said


def test_policies_are_compared_without_a_file(home: Home) -> None:
    """Six pairs unless asked otherwise; the same command continues, and another order is another.

    NAME beside them, one policy alone, or one twice is refused.
    """
    home.name = "quick_spike_policies"
    asked = ("--scenario", "quick_spike", "--policy", "lag-quick", "--policy", "lag-default")
    assert home.run(*asked, rehearse=home.rehearse(stop_at=4)) == 130
    assert home.done == 3
    assert home.run(*asked, rehearse=home.rehearse(stop_at=7)) == 130
    assert (home.done, len(executions(home.name, home.runs))) == (5, 1)
    assert {conf["policy"] for conf in home.confs} == {"lag-quick", "lag-default"}
    assert len(read_progress(home.folder).schedule.runs) == 12
    assert home.run(*asked, "--pairs", "8", "--plan") == ExitCode.PASS
    assert "continues" not in home.said

    confs = len(home.confs)
    for wrong in ((*asked, str(home.file)), asked[:4], (*asked[:4], *asked[2:4]), asked[2:]):
        assert home.run(*wrong) == ExitCode.WRONG_INPUT
    assert len(home.confs) == confs


def test_a_finished_experiment_starts_anew(home: Home) -> None:
    """The next call draws the same order again and makes all runs in a folder of its own.

    Stopped with all runs recorded, only the result is written.
    """
    home.run(str(home.file))
    home.folder.result.unlink()
    assert home.run(str(home.file)) == ExitCode.PASS
    assert home.folder.result.exists()
    assert len(home.confs) == 12
    home.run(str(home.file))

    assert len(executions("tiny", home.runs)) == 2
    assert len(home.confs) == 24


def test_an_experiment_is_kept_in_a_named_folder(home: Home) -> None:
    """It continues there after a stop, and once finished it shows its result and runs nothing."""
    kept = home.root / "results" / "tiny"
    home.kept = ExperimentFolder(kept)
    asked = (str(home.file), "--folder", str(kept))

    assert home.run(*asked, rehearse=home.rehearse(stop_at=4)) == 130
    assert home.run(*asked, "--pairs", "8") == ExitCode.WRONG_INPUT  # it has six
    assert home.run(*asked) == ExitCode.PASS
    assert len(home.confs) == 13
    assert executions("tiny", home.runs) == []

    assert home.run(*asked) == ExitCode.PASS
    assert len(home.confs) == 13
    assert "eager minus calm, 6 pairs" in home.said


def test_a_run_without_a_verdict_is_tried_once_more(home: Home) -> None:
    """A bench that fails once costs a run; one that fails twice ends the command with exit 3."""
    good, failures = home.rehearse(), [3]

    def rehearse(conf: Conf) -> None:
        if len(home.confs) + 1 in failures:
            home.confs.append(conf)
            raise NotReady("the broker is away")
        good(conf)

    assert home.run(str(home.file), rehearse=rehearse) == ExitCode.PASS
    assert len(home.confs) == 13
    assert "the broker is away" in home.said

    failures += [16, 17]
    assert home.run(str(home.file), rehearse=rehearse) == ExitCode.NOT_READY
    assert home.done == 2


def test_a_run_that_may_continue_is_not_repeated_beside_itself(home: Home) -> None:
    """Its Airflow has been silent for too long: the command ends, and the next one continues."""

    def rehearse(conf: Conf) -> None:
        home.confs.append(conf)
        raise StillRunning("Airflow does not answer; the run may continue")

    assert home.run(str(home.file), rehearse=rehearse) == ExitCode.NOT_READY
    assert len(home.confs) == 1


def test_no_run_starts_that_does_not_fit_into_the_hours(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve runs of 300 s have an hour: with half an hour six are made, and the others are named.

    The exit code is that of an undetermined result, and the same command ends the experiment. With
    too little time for one run no bench is started, and no execution begins.
    """
    assert home.run(str(home.file), "--hours", "0.0167") == ExitCode.UNDETERMINED
    assert (home.confs, executions("tiny", home.runs)) == ([], [])
    assert "0 of 12 runs are done" in home.said
    clock = SimpleNamespace(monotonic=lambda: len(home.confs) * 300, time_ns=time.time_ns)
    monkeypatch.setattr(asked_experiment, "time", clock)

    assert home.run(str(home.file), "--hours", "0.5") == ExitCode.UNDETERMINED
    assert home.done == 6
    assert re.search("tiny .* 0 s .* 300 s", home.said)
    assert "6 of 12 runs" in home.said
    assert not home.folder.result.exists()

    assert home.run(str(home.file), "--hours", "2") == ExitCode.PASS
    assert len(home.confs) == 12


def test_several_experiments_run_one_after_the_other(home: Home) -> None:
    """Each in a folder of its name; the end names each, and a gap in one is the exit code."""
    second = home.write("second")
    folder = home.root / "results"

    def how(run: PlannedRun) -> dict[str, Any]:
        is_gap = home.name == "second" and run.key == "pair_1_calm"
        return {"verdict": "undetermined"} if is_gap else {}

    home.kept_in = folder
    asked = (str(home.file), second, "--folder", str(folder))

    assert home.run(*asked, rehearse=home.rehearse(how)) == ExitCode.UNDETERMINED

    assert len(home.confs) == 25
    assert "2 experiments: about 2.0 hours" in home.said
    home.said = "".join(home.said.split())  # lines end at any word of a long path
    assert f"tiny:finished:{folder / 'tiny' / 'result.md'}" in home.said
    assert "second:finished,withagap" in home.said


def test_a_bench_that_fails_stops_one_experiment_and_not_the_next(home: Home) -> None:
    """The next one may need another target or image; the exit code is that of the failure."""
    second, good = home.write("second"), home.rehearse()

    def rehearse(conf: Conf) -> None:
        if home.name == "tiny":
            raise NotReady("the broker is away")
        good(conf)

    assert home.run(str(home.file), second, rehearse=rehearse) == ExitCode.NOT_READY

    assert len(home.confs) == 12
    assert "tiny: stopped" in home.said
    assert "second: finished" in home.said


@pytest.mark.parametrize(
    "arguments", [("rebalance_dop",), ("{file}",), ("--pairs", "5")], ids=["name", "twice", "pairs"]
)
def test_wrong_input_starts_none_of_the_experiments(home: Home, arguments: tuple[str, ...]) -> None:
    """All of them are checked first: a wrong name, one given twice, too few pairs."""
    more = [argument.format(file=home.file) for argument in arguments]
    assert home.run(str(home.file), *more) == ExitCode.WRONG_INPUT

    assert home.confs == []
