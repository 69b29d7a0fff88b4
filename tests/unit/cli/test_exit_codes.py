"""Wrong input: one message names file, field, value and what is allowed; nothing is started."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.nights import rehearse, write_night
from tests.unit.cli.conftest import Command

from lagbench.catalog.catalog import policy_file
from lagbench.cli import app, machine_faults
from lagbench.errors import ExitCode
from lagbench.results.compared_runs import pinned_baselines

LONG = "a" * 400


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("run quick_spike --set profile.rate_per_second=-1", "profile.rate_per_second"),
        ("run quick_spike --set partitions=6", "maxReplicaCount"),
        ("run spark_consumer --set consumer.spark.worker_memory_mebibytes=65536", "free here"),
        ("run quick_spike --speed 9", "--speed"),
        ("show nope", "nope"),
        # An empty variable of a shell is not the default.
        ("run quick_spike --policy ", "--policy"),
        ("run quick_spike --policy=", "--policy"),
        ("run quick_spike --target ", "--target"),
        ("run ", "argument"),
        ("observe --topic orders --group ", "--group"),
        ("observe --group g --topic t --bootstrap-servers ", "--bootstrap"),
        ("experiment rebalance_dip --plan --folder ", "--folder"),
        # Infinity and NaN are no rates and no seconds.
        ("policy check lag-quick --slo time_lag_p99_seconds=.inf", "--slo time_lag_p99"),
        ("policy check lag-quick --slo 30", "NAME=LIMIT"),
        ("policy check lag-quick --slo flips=0", "allowed: time_lag_p99_seconds"),
        ("policy check lag-quick --rate nan", "--rate"),
        ("policy check lag-quick --shutdown-seconds inf", "finite"),
        ("simulate bursty --slo time_lag_p99_seconds=soon", "--slo time_lag_p99"),
        ("plan bursty --slo time_lag=3", "time_lag_p95_seconds, time_lag_p99_seconds"),
        ("observe --group g --topic t --pod-rate inf", "finite"),
        # The file system refuses the name.
        (f"plan quick_spike --policy {LONG}", ""),
        (f"plan {LONG}", ""),
        (f"policy check {LONG}", ""),
        (f"show {LONG}", ""),
        (f"compare {LONG} {LONG}", ""),
        (f"show {LONG}#{LONG}", ""),
        (f"observe --group g --topic t --kafka-config {LONG}", ""),
        (f"run quick_spike --target context:a --target-settings {LONG}", ""),
        # The wrong files of nobody are named.
        ("policy check /nowhere/none.yaml", "none.yaml"),
    ],
)
def test_wrong_input_starts_nothing(lagbench: Command, arguments: str, named: str) -> None:
    """Exit code 2, what is wrong is named, and neither state nor run folder exists afterwards."""
    answer = lagbench(*arguments.split(" "))

    assert answer.code == ExitCode.WRONG_INPUT
    assert named in answer.text
    assert "Traceback" not in answer.text
    assert not lagbench.home.exists()


@pytest.mark.parametrize("verb", ["run", "plan", "simulate"])
def test_a_policy_that_needs_a_newer_kubernetes_starts_nothing(
    lagbench: Command, tmp_path: Path, verb: str
) -> None:
    """1.34 drops a tolerance: nothing that was predicted or rehearsed would hold."""
    text = policy_file("lab-eleven-tolerance").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace('kubernetes: "1.37"', 'kubernetes: "1.34"'))
    answer = lagbench(verb, "lab_spike", "--policy", str(tmp_path / "mine.yaml"))

    assert answer.code == ExitCode.WRONG_INPUT
    assert "scaleUp.tolerance" in answer.text
    assert not lagbench.home.exists()


OWN = """
name: mine
description: mine
partitions: 12
payload: {file: orders.jsonl}
profile: {kind: steady, rate_per_second: 100, duration_seconds: 10}
consumer:
  kind: own
  manifest: own.yaml
  accounting: output
  env: {K: "{bootstrap_servers} {topic} {group} {output_topic}"}
policy: lag-quick
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  template:
    spec:
      containers: [{name: orders, image: orders, command: [python, orders.py]}]
"""


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ((OWN, "\n \n", DEPLOYMENT), ("orders.jsonl", "no sample")),
        ((OWN, "{}\n", "kind: Job\n"), ("own.yaml", "kind", "one Deployment")),
        (
            (OWN, "{}\n", DEPLOYMENT.replace("python", "./orders")),
            ("own.yaml", "containers[0].command", "build it first"),
        ),
        (("name: [unclosed\n", "", ""), ("mine.yaml",)),
    ],
)
def test_a_wrong_file_starts_nothing(
    lagbench: Command, tmp_path: Path, files: tuple[str, ...], named: tuple[str, ...]
) -> None:
    """Exit code 2; the message has the file, the place and what is allowed."""
    for name, text in zip(("mine.yaml", "orders.jsonl", "own.yaml"), files, strict=True):
        (tmp_path / name).write_text(text)

    answer = lagbench("run", str(tmp_path / "mine.yaml"))

    assert answer.code == ExitCode.WRONG_INPUT
    assert all("".join(part.split()) in answer.joined for part in named), answer
    assert not lagbench.home.exists()


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (["quick_spike", "--seed", "77"], ["375,000", "seed 77"]),
        (["quick_spike", "--manifests"], ["kind: ScaledObject"]),
        (
            ["spark_consumer", "--manifests"],
            [
                "kind: Service",
                "name: spark-stream-master",
                "name: consumer",
                "name: spark-stream-driver",
                "workers of two JVMs",
            ],
        ),
    ],
)
def test_a_plan_starts_nothing(lagbench: Command, options: list[str], printed: list[str]) -> None:
    """It prints the prediction, the manifests if they are asked for, and leaves no file."""
    answer = lagbench("plan", *options)

    assert answer.code == ExitCode.PASS
    assert [text for text in printed if text not in answer.out] == []
    assert ("kind: " in answer.out) is ("--manifests" in options)
    assert not lagbench.home.exists()


def test_a_run_that_does_not_fit_the_disk_starts_nothing(lagbench: Command) -> None:
    """A day at a million messages a second needs some 20 TB: exit code 3, with need and have."""
    settings = ("profile.rate_per_second=100000", "profile.spike_hold_seconds=86000")
    answer = lagbench("run", "quick_spike", *(f"--set={setting}" for setting in settings))

    assert answer.code == ExitCode.NOT_READY
    assert "not enough disk" in answer.err
    assert not lagbench.home.exists()


def test_a_runs_folder_that_is_a_file_starts_nothing(lagbench: Command) -> None:
    """The variable is named before the bench is."""
    lagbench.monkeypatch.setenv("LAGBENCH_RUNS_DIR", "/dev/null")
    answer = lagbench("run", "quick_spike")

    assert answer.code == ExitCode.WRONG_INPUT
    assert "LAGBENCH_RUNS_DIR" in answer.err
    assert not lagbench.home.exists()


@pytest.mark.parametrize("names", [["rebalance_dip"], ["rebalance_dip", "policy_swap"]])
def test_a_file_as_the_folder_of_an_experiment_starts_nothing(
    lagbench: Command, tmp_path: Path, names: list[str]
) -> None:
    """Exit code 2, also for a plan; the path is shown as it is written."""
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    answer = lagbench("experiment", *names, "--folder", str(file), "--plan")

    assert answer.code == ExitCode.WRONG_INPUT
    assert "--folder='/" in answer.joined
    assert "isafile" in answer.joined
    assert not lagbench.home.exists()


def test_only_a_rehearsal_becomes_the_baseline(lagbench: Command) -> None:
    """Exit code 2 for a run by hand, 0 for a night, which then is the baseline."""
    cell = rehearse(lagbench.runs, "night-1", created_at=1).cell
    rehearse(lagbench.runs, "night-2", created_at=2)
    write_night(lagbench.runs, "by-hand", created_at=3)

    refused, taken = lagbench("baseline", "by-hand"), lagbench("baseline", "night-2")

    assert (refused.code, taken.code) == (ExitCode.WRONG_INPUT, ExitCode.PASS)
    assert "run = 'by-hand'" in refused.text
    assert pinned_baselines(lagbench.runs)[cell].run_id == "night-2"
    assert taken.out == "baseline: night-2\nbefore:   night-1\n"


RUN = "a-20260101-000000-abcd"


def command(folder: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    variables = {"LAGBENCH_STATE_DIR": str(folder / "state"), "LAGBENCH_RUNS_DIR": str(folder)}
    options = {"stdout": subprocess.PIPE, "env": {**os.environ, **variables}, **options}
    started = [sys.executable, "-c", "from lagbench.cli import main; main()", *arguments]
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        started, stderr=subprocess.PIPE, text=True, check=False, **options
    )


def test_a_closed_pipe_is_no_failure(tmp_path: Path) -> None:
    """The reader has gone before the first line."""
    reads, writes = os.pipe()
    os.close(reads)
    done = command(tmp_path, "--help", stdout=writes)
    os.close(writes)

    assert (done.returncode, done.stderr) == (ExitCode.PASS, "")


def test_a_full_output_is_named(tmp_path: Path) -> None:
    """One line, once."""
    with Path("/dev/full").open("w") as full:
        done = command(tmp_path, "show", stdout=full)

    assert done.returncode == ExitCode.NOT_READY
    assert done.stderr == "no space left on the output\n"


def test_another_encoding_replaces_what_it_lacks(tmp_path: Path) -> None:
    """The table of a verdict has marks that latin-1 has not."""
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "manifest.json").write_text('{"scenario": "✓", "created_at": 1}')
    variables = {**os.environ, "LAGBENCH_RUNS_DIR": str(tmp_path), "PYTHONIOENCODING": "latin-1"}
    done = command(tmp_path, "show", env=variables)

    assert done.returncode == ExitCode.PASS, done.stderr
    assert "?" in done.stdout


@pytest.mark.parametrize("content", ["[1]", '{"status": 3}', "3", "null", '"x"'])
@pytest.mark.parametrize("verb", ["show", "compare", "history", "baseline"])
def test_a_verdict_of_another_form_is_named(lagbench: Command, verb: str, content: str) -> None:
    """A run of another version, or one that somebody edited."""
    run = lagbench.runs / RUN
    run.mkdir(parents=True)
    figures = {"scenario": "a", "policy": "b", "created_at": 1}
    (run / "manifest.json").write_text(json.dumps(figures))
    (run / "verdict.json").write_text(content)
    arguments = {"compare": ("latest", "latest"), "history": ("--rebuild",)}.get(verb, ("latest",))

    answer = lagbench(verb, *arguments)

    assert answer.code in {0, ExitCode.WRONG_INPUT, ExitCode.NOT_READY}
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 3, "no space left on"),
        (OSError(errno.ENOSPC, "x", "/runs/a"), 3, "no space left on /runs/a"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/dev/null/a"), 3, "/dev/null/a"),
        (PermissionError(errno.EACCES, "Permission denied", "/runs/a"), 3, "/runs/a"),
        (KeyboardInterrupt(), 130, "stopped"),
        (ZeroDivisionError("x"), 3, "fault in lagbench"),
    ],
    ids=str,
)
def test_no_error_ends_with_the_code_of_a_failed_slo(
    lagbench: Command, error: BaseException, code: int, says: str
) -> None:
    """Each has a code that says what kind it is, and its message names the place."""

    def fail(**_: object) -> None:
        raise error

    lagbench.monkeypatch.setattr(app, "app", fail)
    answer = lagbench()

    assert answer.code == code
    assert says in answer.err


def test_an_interrupt_of_the_imports_is_one_word(lagbench: Command) -> None:
    """They take most of a second, in which a user may have thought better of it."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    lagbench.monkeypatch.setattr(app, "main", interrupt)

    assert lagbench() == (130, "", "stopped\n")


def test_a_disk_that_was_full_is_the_reason_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite and Python have their own words; the folder without room is named."""
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    assert machine_faults.no_space("sensor timed out") is None
    for words in ("[Errno 28] No space left on device", "database or disk is full"):
        assert str(machine_faults.no_space(words)).startswith("no space left on a device")
    free = "lagbench.embedded.broker.free_disk_bytes"
    monkeypatch.setattr(free, lambda folder: 0 if folder.name == "state" else 2**30)
    assert f"no space left on {tmp_path}/state;" in str(machine_faults.no_space("any"))
