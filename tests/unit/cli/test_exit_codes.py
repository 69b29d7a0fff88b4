"""Wrong input: one message names file, field, value and what is allowed; nothing is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.fakes.nights import rehearse, write_night

from lagbench.cli import main
from lagbench.errors import ExitCode
from lagbench.results.baseline import pinned_baselines

QUICK = (
    Path(__file__).resolve().parents[3] / "include" / "catalog" / "scenarios" / "quick_spike.yaml"
)


def exit_code(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the command in an empty home and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["lagbench", *arguments])
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path / "runs"))
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("profile.rate_per_second=-1", "profile.rate_per_second"),
        ("partitions=0", "partitions"),
        ("consumer.balancer=sticky", "consumer.balancer"),
        ("seed=-5", "seed"),
        ("partitions=6", "maxReplicaCount"),
        ("profil.rate=3", "profil"),
        ("consumer.process_ms=fast", "consumer.process_ms"),
        ("profile.rate_per_second=200000", "profile.spike_mult"),  # 10 times that in the spike
    ],
)
def test_a_wrong_setting_starts_nothing(
    setting: str,
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2, the field is named, and neither state nor run folder exists afterwards."""
    code = exit_code(["run", "quick_spike", "--set", setting], tmp_path, monkeypatch)

    assert code == ExitCode.WRONG_INPUT
    message = capsys.readouterr().err
    assert named in message
    assert "allowed" in message
    assert list(tmp_path.iterdir()) == []


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
VOLUME = """
      volumes: [{name: data, persistentVolumeClaim: {claimName: orders}}]
"""
MOUNTED = DEPLOYMENT.replace(
    "[python, orders.py]", "[python], volumeMounts: [{name: data, mountPath: /x}]"
)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (("\n \n", DEPLOYMENT), ("orders.jsonl", "no sample")),
        (("{}\n", "kind: Job\n"), ("own.yaml", "kind", "one Deployment")),
        (("{}\n", "kind: [\n"), ("own.yaml",)),
        (
            ("{}\n", DEPLOYMENT.replace("containers", "pods")),
            ("own.yaml", "template.spec.containers"),
        ),
        (("{}\n", MOUNTED + VOLUME), ("own.yaml", "volumes[0].persistentVolumeClaim", "emptyDir")),
        (
            ("{}\n", DEPLOYMENT.replace("python", "./orders")),
            ("own.yaml", "containers[0].command", "build it first"),
        ),
    ],
)
def test_a_wrong_file_of_an_own_consumer_starts_nothing(
    files: tuple[str, str],
    named: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2; the message has the file, the place and what is allowed."""
    texts = dict(zip(("mine.yaml", "orders.jsonl", "own.yaml"), (OWN, *files), strict=True))
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

    code = exit_code(["run", str(tmp_path / "mine.yaml")], tmp_path, monkeypatch)

    message = capsys.readouterr().err
    assert code == ExitCode.WRONG_INPUT, message
    unwrapped = "".join(message.split())  # the terminal's width breaks lines, also in a long path
    assert all("".join(part.split()) in unwrapped for part in named), message
    assert {path.name for path in tmp_path.iterdir()} == set(texts)


def test_an_unreadable_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scenario that is no YAML gives exit code 2 and the file's name."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: [unclosed\n")
    code = exit_code(["plan", str(broken)], tmp_path, monkeypatch)

    assert code == ExitCode.WRONG_INPUT
    assert "broken.yaml" in capsys.readouterr().err.replace("\n", "")


def test_an_unknown_option_is_wrong_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag that does not exist gives exit code 2."""
    assert exit_code(["run", "quick_spike", "--speed", "9"], tmp_path, monkeypatch) == 2


def test_a_run_that_does_not_exist_is_wrong_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``show`` of an unknown run gives exit code 2."""
    assert exit_code(["show", "nope"], tmp_path, monkeypatch) == ExitCode.WRONG_INPUT


def test_a_plan_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``plan`` prints the prediction, the manifests if they are asked for, and leaves no file."""
    code = exit_code(["plan", str(QUICK), "--seed", "77"], tmp_path, monkeypatch)
    printed = capsys.readouterr().out

    assert code == ExitCode.PASS
    assert "375,000" in printed
    assert "seed 77" in printed
    assert "kind: ScaledObject" not in printed
    assert exit_code(["plan", str(QUICK), "--manifests"], tmp_path, monkeypatch) == ExitCode.PASS
    assert "kind: ScaledObject" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_plan_shows_the_pods_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Master with its Service, the workers under the name that policies scale, driver; memory."""
    code = exit_code(["plan", "spark_consumer", "--manifests"], tmp_path, monkeypatch)
    printed = capsys.readouterr().out

    assert code == ExitCode.PASS
    assert "kind: Service" in printed
    for name in ("spark-stream-master", "consumer", "spark-stream-driver"):
        assert f"name: {name}" in printed
    assert "workers of two JVMs" in printed


def test_a_run_that_does_not_fit_the_disk_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A day at a million messages a second needs some 20 TB: exit code 3, with need and have."""
    settings = ("profile.rate_per_second=100000", "profile.spike_hold_seconds=86000")
    flags = [flag for setting in settings for flag in ("--set", setting)]
    code = exit_code(["run", "quick_spike", *flags], tmp_path, monkeypatch)

    assert code == ExitCode.NOT_READY
    assert "not enough disk" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_more_workers_than_memory_start_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four heaps of 64 GiB: exit code 2 with the policy's field, before the bench is started."""
    memory = "consumer.spark.worker_memory_mebibytes=65536"
    code = exit_code(["run", "spark_consumer", "--set", memory], tmp_path, monkeypatch)

    assert code == ExitCode.WRONG_INPUT
    message = " ".join(capsys.readouterr().err.split())
    assert "maxReplicaCount" in message
    assert "are free here" in message
    assert list(tmp_path.iterdir()) == []


def test_only_a_rehearsal_becomes_the_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 for a run by hand, 0 for a night, which then is the baseline."""
    cell = rehearse(tmp_path / "runs", "night-1", created_at=1).cell
    rehearse(tmp_path / "runs", "night-2", created_at=2)
    write_night(tmp_path / "runs", "by-hand", created_at=3)

    refused = exit_code(["baseline", "by-hand"], tmp_path, monkeypatch)
    message = " ".join(capsys.readouterr().err.split())
    taken = exit_code(["baseline", "night-2"], tmp_path, monkeypatch)

    assert (refused, taken) == (ExitCode.WRONG_INPUT, ExitCode.PASS)
    assert "run = 'by-hand'" in message
    assert pinned_baselines(tmp_path / "runs")[cell].run_id == "night-2"
    assert capsys.readouterr().out == "baseline: night-2\nbefore:   night-1\n"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["run", "quick_spike", "--policy", ""], "--policy"),
        (["run", "quick_spike", "--policy="], "--policy"),
        (["run", "quick_spike", "--target", ""], "--target"),
        (["run", ""], "argument"),
        (["observe", "--group", "", "--topic", "orders"], "--group"),
        (["observe", "--group", "g", "--topic", "t", "--bootstrap-servers", ""], "--bootstrap"),
        (["experiment", "rebalance_dip", "--folder", "", "--plan"], "--folder"),
    ],
)
def test_an_empty_argument_starts_nothing(
    arguments: list[str],
    field: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An empty variable of a shell is not the default: exit code 2, before anything is asked."""
    code = exit_code(arguments, tmp_path, monkeypatch)

    assert code == ExitCode.WRONG_INPUT
    assert field in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [["rebalance_dip"], ["rebalance_dip", "policy_swap"]])
def test_a_file_as_the_folder_of_an_experiment_starts_nothing(
    names: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2, also for a plan; the path is shown as it is written."""
    file = tmp_path / "notes.txt"
    file.write_text("mine")

    code = exit_code(["experiment", *names, "--folder", str(file), "--plan"], tmp_path, monkeypatch)

    message = "".join(capsys.readouterr().err.split())
    assert code == ExitCode.WRONG_INPUT
    assert "--folder='/" in message
    assert "isafile" in message
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "arguments",
    [
        ["policy", "check", "lag-quick", "--slo", "inf"],
        ["policy", "check", "lag-quick", "--rate", "nan"],
        ["policy", "check", "lag-quick", "--shutdown-seconds", "inf"],
        ["simulate", "bursty", "--slo-seconds", "inf"],
        ["observe", "--group", "g", "--topic", "t", "--pod-rate", "inf"],
    ],
)
def test_a_number_that_is_not_finite_is_refused(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Infinity and NaN are no rates and no seconds: exit code 2."""
    assert exit_code(arguments, tmp_path, monkeypatch) == ExitCode.WRONG_INPUT
