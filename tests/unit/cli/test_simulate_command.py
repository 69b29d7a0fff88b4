"""``lagbench simulate``: more than two policies are rows, and one that does not fit is skipped."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.unit.cli.conftest import Command

from lagbench.adapters.process import processor_speed
from lagbench.catalog.catalog import policy_file
from lagbench.cli import simulated_cells
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
    limits = ("--slo", "drain_seconds=1", "--slo", "flips=null")
    answer = lagbench(*asked(FITTING[0]), *limits, "--json")
    (found,) = json.loads(answer.out).values()

    assert {slo["name"]: slo["status"] for slo in found["slos"]} == {
        "reaction_seconds": "pass",
        "drain_seconds": "fail",
    }
    late = "Time over the SLO"
    assert late not in lagbench(*asked(FITTING[0])).out
    assert late in lagbench(*asked(FITTING[0]), "--slo", "time_lag_p99_seconds=9").out


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("--fail", ExitCode.PASS),
        ("--fail --slo drain_seconds=300", ExitCode.PASS),
        ("--fail --slo drain_seconds=1", ExitCode.SLO_FAILED),
        ("--fail --slo drain_seconds=1 --allow 1", ExitCode.SLO_FAILED),
        ("--slo drain_seconds=1", ExitCode.PASS),
        ("--fail --slo drain_seconds=1 --slo drain_seconds.level=warn", ExitCode.PASS),
        # What is broken or holds is not that of the scenario as it is written.
        ("--fail --slo drain_seconds=1 --set consumer.static_membership=true", 4),
        # Nothing is judged, or nothing that can fail.
        ("--fail --slo reaction_seconds=null --slo flips=null", ExitCode.UNDETERMINED),
        ("--fail --slo reaction_seconds.level=warn --slo flips=null", ExitCode.UNDETERMINED),
        # Not within the ten seconds that are watched.
        ("--fail --slo drain_seconds=30 --tail-seconds 3", ExitCode.UNDETERMINED),
        ("--fail --slo drain_seconds=1 --tail-seconds 3", ExitCode.SLO_FAILED),
        ("--fail --slo lost=0", ExitCode.WRONG_INPUT),
        ("--fail --allow 2", ExitCode.WRONG_INPUT),
        ("--junit /none/junit.xml", ExitCode.WRONG_INPUT),
        (f"--fail --policy {UNFIT}", ExitCode.WRONG_INPUT),
    ],
)
def test_the_seeds_decide_the_exit_code(lagbench: Command, options: str, code: int) -> None:
    """With --fail; a limit that only warns decides nothing, and what is not known is no pass."""
    assert lagbench(*asked(FITTING[0]), *options.split()).code == code


def test_an_asked_slo_that_is_not_judged_is_no_pass(lagbench: Command) -> None:
    """There is no spike to drain after."""
    given = ("simulate", "steady", "--seeds", "1", "--fail")

    assert lagbench(*given).code == ExitCode.PASS
    assert lagbench(*given, "--slo", "drain_seconds=9").code == ExitCode.UNDETERMINED


def test_the_seeds_that_break_an_slo_are_named(lagbench: Command, tmp_path: Path) -> None:
    """On the terminal, in JUnit and as data; the printed command has the value of the worst."""
    file, slo = tmp_path / "junit.xml", ("--slo", "drain_seconds=1")
    told = lagbench(*asked(*FITTING[:2]), *slo, "--set", "partitions=12", "--junit", str(file))
    found = json.loads(lagbench(*asked(*FITTING[:2]), *slo, "--json").out)
    suite = ET.parse(file).getroot()  # noqa: S314 - our own output

    assert told.code == ExitCode.PASS  # without --fail
    assert [suite.attrib[name] for name in ("tests", "errors")] == ["6", "0"]
    failures = {one.attrib["classname"]: one[0] for one in suite if one[0].tag == "failure"}
    for policy in FITTING[:2]:
        (drain,) = [o for o in found[policy]["over_seeds"] if o["slo"]["name"] == "drain_seconds"]
        broken = drain["broken"]
        assert [one["seed"] for one in broken] == [1, 2]
        named = [f"seed {one['seed']} {one['text']}" for one in broken]
        assert all(one in told.text for one in named)
        assert all(one in failures[f"quick_spike.{policy}"].attrib["message"] for one in named)
        worst = max(broken, key=lambda one: one["value"])
        lines = told.out.splitlines()
        place = next(n for n, line in enumerate(lines) if f"✗ {policy}: Lag drain" in line)
        (again,) = json.loads(lagbench(*lines[place + 1].split()[1:], "--json").out).values()
        assert again["summary"]["drain_seconds"]["median"] == worst["value"]


def test_several_processes_find_the_same(
    lagbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeds and policies come in their order, with the same bits."""
    command = (*asked(*FITTING[:2])[:2], "--seeds", "5", *asked(*FITTING[:2])[4:], "--json")
    alone = lagbench(*command).out
    monkeypatch.setattr(simulated_cells, "_WORTH_SECONDS", 0.0)
    monkeypatch.setattr(processor_speed, "usable_cores", lambda: 2)

    assert lagbench(*command).out == alone


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
    assert "Replicas when the spike starts 6 (2 to 6)" in answer.text
