"""``lagbench simulate``: several policies, many seeds, one answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lagbench.cli import main
from lagbench.errors import ExitCode

FINDING = Path(__file__).resolve().parents[3] / "docs" / "findings" / "persistent-lag"
POLICIES = Path(__file__).resolve().parents[3] / "k8s" / "policies"


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the command and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["lagbench", "simulate", *arguments])
    monkeypatch.setenv("COLUMNS", "240")
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_policies_are_compared_over_seeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One row per policy with the median and the range over the seeds."""
    policies = ["--policy", "lag-quick", "--policy", "lag-default"]

    code = run(["quick_spike", *policies, "--seeds", "3"], monkeypatch)

    shown = capsys.readouterr().out
    assert code == ExitCode.PASS
    assert "quick_spike, simulated, seeds: 3" in shown
    assert "lag-quick" in shown
    assert "lag-default" in shown


def test_json_has_each_cell_and_its_timeline(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recorded spike at its own phase: 2 to 6 at 25.1 s, 12 one sync later, as it really was.

    Its load had no tail.
    """
    flags = ["--seed", "11", "--sync-at", "25.1", "--json", "--timeline", "--set", "tail=none"]

    code = run(["quick_spike", "--policy", "lag-quick", *flags], monkeypatch)

    found = json.loads(capsys.readouterr().out)["lag-quick"]
    line = found["cells"][0]["timeline"]
    replicas = dict(zip(line["second"], line["spec_replicas"], strict=True))
    assert code == ExitCode.PASS
    assert found["cells"][0]["fidelity"] == "simulated"
    assert (replicas[10.085], replicas[25.1], replicas[40.115]) == (2, 6, 12)
    assert found["summary"]["drain_seconds"]["median"] == pytest.approx(77, abs=2)


def test_waiting_policies_of_the_experiment_leave_a_digested_burst_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two minutes of patience, by the lag scaler or by the HPA's window, add no pod."""
    window = str(FINDING / "lag-stabilised.yaml")
    policies = ["--policy", "persistent-lag", "--policy", window, "--policy", "lag-default"]

    run(["short_bursts", *policies, "--seed", "1", "--json"], monkeypatch)

    found = json.loads(capsys.readouterr().out)
    events = {name: of["summary"]["replica_changes"]["median"] for name, of in found.items()}
    assert events["persistent-lag"] == events["lag-stabilised"] == 0
    assert events["lag-default"] > 0


def test_a_policy_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """24 replicas on 12 partitions: exit code 2."""
    assert run(["quick_spike", "--policy", "lag-standard"], monkeypatch) == ExitCode.WRONG_INPUT


def test_a_cron_window_is_simulated_at_the_wanted_time_of_day(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The policy holds six pods from 8:00 in Berlin on a working day, and two before."""
    replicas = {}
    for start in ("2026-11-23T05:00:00Z", "2026-11-23T08:00:00+01:00"):
        flags = ["--policy", "cron-prewarm-plus-lag", "--seed", "1", "--start", start]
        run(["steady", *flags, "--json", "--timeline"], monkeypatch)
        cells = json.loads(capsys.readouterr().out)["cron-prewarm-plus-lag"]["cells"]
        line = cells[0]["timeline"]
        replicas[start] = {
            wanted
            for second, wanted in zip(line["second"], line["spec_replicas"], strict=True)
            if second > 60
        }

    assert list(replicas.values()) == [{2}, {6}]


@pytest.mark.parametrize("start", ["2026-11-23T08:59:30", "tomorrow"])
def test_a_start_without_a_time_zone_is_rejected(
    start: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wall clock alone is no instant; the message names the flag and an example."""
    code = run(["quick_spike", "--start", start], monkeypatch)

    assert code == ExitCode.WRONG_INPUT
    assert "--start" in capsys.readouterr().err


def test_a_swap_is_simulated_and_what_is_not_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From second 5 on the policy is one on CPU, which stays at 2 replicas."""
    actions = (
        "actions=[{kind: swap_policy, at_seconds: 5, policy: cpu-only}, "
        "{kind: pause_pod, at_seconds: 6, for_seconds: 1}]"
    )

    run(["quick_spike", "--seed", "11", "--set", actions, "--json"], monkeypatch)

    shown = capsys.readouterr()
    (found,) = json.loads(shown.out).values()
    assert found["summary"]["max_replicas"]["median"] == 2
    assert "pause_pod" in shown.err
    assert "swap_policy" not in shown.err


def test_two_policies_of_one_name_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of two columns would vanish without a word."""
    text = (POLICIES / "lag-quick.yaml").read_text()
    files = [tmp_path / side / "policy.yaml" for side in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text(text)
    flags = [part for file in files for part in ("--policy", str(file))]

    assert run(["quick_spike", *flags, "--seed", "1"], monkeypatch) == ExitCode.WRONG_INPUT
    assert "policy, 2 times" in capsys.readouterr().err
