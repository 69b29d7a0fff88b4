"""``lagbench simulate``: more than two policies are rows, and one that does not fit is skipped."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Command

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
    """On 80 columns no name is broken; six medians each, and the lowest is marked."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = lagbench(*asked(*FITTING)).out.splitlines()

    rows = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert [len(rows[name]) for name in FITTING] == [6, 6, 6]
    assert max(map(len, lines)) <= 80
    reactions = {name: float(rows[name][0].rstrip("*")) for name in FITTING}
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
