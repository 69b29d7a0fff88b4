"""``lagbench simulate``: several policies, many seeds, one answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from lagbench.errors import ExitCode

FINDING = Path(__file__).resolve().parents[3] / "docs" / "findings" / "persistent-lag"
POLICIES = Path(__file__).resolve().parents[3] / "k8s" / "policies"


def test_policies_are_compared_over_seeds(lagbench: Command) -> None:
    """One row per policy with the median and the range over the seeds."""
    policies = ["--policy", "lag-quick", "--policy", "lag-default"]

    answer = lagbench("simulate", "quick_spike", *policies, "--seeds", "3")

    assert answer.code == ExitCode.PASS
    assert "quick_spike, simulated, seeds: 3" in answer.out
    assert "lag-quick" in answer.out
    assert "lag-default" in answer.out


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
    assert (replicas[10.085], replicas[25.1], replicas[40.115]) == (2, 6, 12)
    assert found["summary"]["drain_seconds"]["median"] == pytest.approx(77, abs=2)


def test_waiting_policies_of_the_experiment_leave_a_digested_burst_alone(lagbench: Command) -> None:
    """Two minutes of patience, by the lag scaler or by the HPA's window, add no pod."""
    window = str(FINDING / "lag-stabilised.yaml")
    policies = ["--policy", "persistent-lag", "--policy", window, "--policy", "lag-default"]

    answer = lagbench("simulate", "short_bursts", *policies, "--seed", "1", "--json")

    found = json.loads(answer.out)
    events = {name: of["summary"]["replica_changes"]["median"] for name, of in found.items()}
    assert events["persistent-lag"] == events["lag-stabilised"] == 0
    assert events["lag-default"] > 0


def test_a_policy_that_does_not_fit_is_refused(lagbench: Command) -> None:
    """24 replicas on 12 partitions: exit code 2."""
    assert (
        lagbench("simulate", "quick_spike", "--policy", "lag-standard").code == ExitCode.WRONG_INPUT
    )


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

    assert answer.code == ExitCode.WRONG_INPUT
    assert "--start" in answer.err


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
