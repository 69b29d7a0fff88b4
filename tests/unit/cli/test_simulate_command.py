"""``lagbench simulate``: more than two policies are rows, and one that does not fit is skipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from lagbench.catalog.catalog import policy_file
from lagbench.errors import ExitCode

FITTING = ("lag-quick", "persistent-lag-cost-optimised", "scale-to-zero")
UNFIT = "lag-threshold-10k"  # 24 replicas, and quick_spike has 12 partitions


def asked(*policies: str) -> tuple[str, ...]:
    """Return the command for these policies."""
    options = [word for policy in policies for word in ("--policy", policy)]
    return ("simulate", "quick_spike", "--seeds", "2", *options)


def test_more_than_two_policies_are_rows(
    lagbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 80 columns no name is broken; five medians each, and the lowest is marked."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = lagbench(*asked(*FITTING)).out.splitlines()

    rows = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert [len(rows[name]) for name in FITTING] == [5, 5, 5]  # none of the age without a limit
    assert max(map(len, lines)) <= 80
    reactions = {name: float(rows[name][0].rstrip("✗*")) for name in FITTING}
    marked = [name for name in FITTING if rows[name][0].endswith("*")]
    assert marked == [min(reactions, key=lambda name: reactions[name])]
    assert "* lowest" not in lagbench(*asked(*FITTING[:2])).out  # two stand beside each other
    assert "Time lag p99, s" in lagbench(*asked(*FITTING), "--all").out


def test_a_policy_that_does_not_fit_is_skipped(lagbench: Command) -> None:
    """Its reason is a line, and its entry in the JSON; alone, or misspelt, it is refused."""
    answer = lagbench(*asked(FITTING[0], UNFIT), "--json")

    assert answer.code == ExitCode.PASS
    found = json.loads(answer.out)
    assert list(found) == [FITTING[0], UNFIT]
    assert "spec.maxReplicaCount" in found[UNFIT]["left_out"]
    assert UNFIT in answer.err
    assert "spec.maxReplicaCount" in answer.err
    for policies in ((UNFIT,), (UNFIT, "lag-threshold-1k"), (FITTING[0], "lag-quik")):
        refused = lagbench(*asked(*policies))
        assert (refused.code, refused.out) == (ExitCode.WRONG_INPUT, "")


def test_the_scenario_s_slos_are_judged_and_no_other(lagbench: Command) -> None:
    """Drain and reaction have limits; an age has a row only with a limit."""
    limits = ("--set", "slos.drain_seconds=1", "--set", "slos.flips=null")
    answer = lagbench(*asked(FITTING[0]), *limits, "--json")
    (found,) = json.loads(answer.out).values()

    assert {slo["name"]: slo["status"] for slo in found["slos"]} == {
        "reaction_seconds": "pass",
        "drain_seconds": "fail",
    }
    late = "Time over the SLO"
    assert late not in lagbench(*asked(FITTING[0])).out
    assert late in lagbench(*asked(FITTING[0]), "--slo-seconds", "9").out


def test_a_plan_begins_with_an_ignored_parameter_and_says_when_cron_is_open(
    lagbench: Command, tmp_path: Path
) -> None:
    """KEDA reads lagThreshold alone; on a Monday at midnight the window is closed."""
    text = policy_file("cron-prewarm-plus-lag").read_text(encoding="utf-8")
    (tmp_path / "p.yaml").write_text(text.replace("lagThreshold", "lagTreshold"))
    answer = lagbench("plan", "quick_spike", "--policy", str(tmp_path / "p.yaml"))

    assert answer.code == ExitCode.PASS
    assert "metadata.lagTreshold" in answer.err
    assert "instead: lagThreshold" in answer.err
    assert "cron trigger" in answer.out
