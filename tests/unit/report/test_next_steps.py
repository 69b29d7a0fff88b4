"""What to do next after a run, and the command that does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.measured_run import quick_spike_measures
from tests.fakes.nights import measures_with
from tests.fakes.run_folder_builder import quick_spike_run

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog import catalog_files
from lagbench.core.measures.doubts.doubts_of_policy import EVERYTHING, Doubt
from lagbench.core.measures.evidence.observed_group import Observation
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.consumer_kinds import level_of
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.verdict.verdict import Verdict, judge
from lagbench.report import page
from lagbench.report.next_steps import NextStep, cheaper_policies, next_steps

TWO_TABLES = Doubt(code="lag_table", about=EVERYTHING, text="two tables differ")
GOOD = quick_spike_measures()
OPEN = Verdict(run_id=GOOD.run_id, status="undetermined", reasons=("no fence",), slos=())


def text(found: list[NextStep]) -> str:
    """Return all steps as one text."""
    return "\n".join(f"{step.do}; {step.because}; {step.command}" for step in found)


@pytest.mark.parametrize(
    ("parts", "limits", "told", "not_told"),
    [
        # The HPA's sync ruled the reaction: the pods' start is not blamed.
        ({}, {"reaction_seconds": 5}, ["t2 (", "14.0 s", "useCachedMetrics"], "start of a pod"),
        # KEDA's pollingInterval has an effect at zero replicas alone.
        (
            {"reaction": {"ruling_clock": "keda_poll"}},
            {"reaction_seconds": 5},
            ["pollingInterval"],
            "useCachedMetrics",
        ),
        # Near the bound of the hottest partition it is the keys, else the pods' number.
        ({}, {"drain_seconds": 20}, ["spread the keys"], "more partitions, or"),
        (
            {"drain": {"skew_limited_seconds": 10.0}},
            {"drain_seconds": 20},
            ["more partitions, or"],
            "spread the keys",
        ),
        # With idle partitions left, maxReplicaCount is what holds the drain.
        (
            {
                "drain": {"skew_limited_seconds": 10.0},
                "scaling": {"ceiling_replicas": 6, "max_ready_replicas": 6},
            },
            {"drain_seconds": 20},
            ["maxReplicaCount up to the 12 "],
            "more partitions, or",
        ),
        # Reversals without one of the load are the loop's own; those of the load are not.
        ({"scaling": {"self_made_flips": 2}}, {}, ["lower the gain"], "maxReplicaCount"),
        ({"scaling": {"load_following_flips": 2}}, {}, ["cheaper"], "lower the gain"),
        # The command differs from the run in the balancer alone.
        (
            {},
            {"rebalance_dip_percent": 1},
            ["--seed 1 --set=consumer.balancer=consumer"],
            "second_group",
        ),
    ],
)
def test_advice_names_what_limits_the_run(
    parts: dict[str, Any], limits: dict[str, Any], told: list[str], not_told: str
) -> None:
    """Each failed SLO leads to the part of the system that ruled it."""
    measures = measures_with(**parts)
    slos = Slos(drain_seconds=120).model_copy(update=limits)

    found = text(next_steps(measures, judge(measures, slos)))

    assert [word for word in told if word not in found] == []
    assert not_told not in found


def test_a_run_that_holds_leads_to_its_price_and_lost_messages_come_first() -> None:
    """A pass has one step: look for something cheaper, in the simulator."""
    (step,) = next_steps(GOOD, judge(GOOD, Slos(drain_seconds=120)))
    lost = measures_with(accounting={"lost": 3})
    first, *_ = next_steps(lost, judge(lost, Slos(drain_seconds=120, reaction_seconds=5)))

    (tried,) = next_steps(GOOD, judge(GOOD, Slos(drain_seconds=120)), cheaper=["a", "b"])

    assert (step.command, "simulator" in step.do) == ("", False)
    simulated = "lagbench simulate quick_spike --policy lag-fast --policy=a --policy=b --seeds 20"
    assert tried.command == simulated
    assert ("commit" in first.do, "messages lost" in first.because) == (True, True)


def test_no_command_on_the_second_group_acts_on_the_first() -> None:
    """A dip changes the second group's balancer, and no simulation of the first is proposed."""
    dipped = judge(GOOD, Slos(drain_seconds=120, rebalance_dip_percent=1))
    (step,) = next_steps(GOOD, judge(GOOD, Slos(drain_seconds=120)), is_second=True)
    after_dip = text(next_steps(GOOD, dipped, is_second=True))

    assert "--set=second_group.consumer.balancer=consumer" in after_dip
    assert "--set=consumer.balancer" not in after_dip
    assert (step.command, "second group" in step.do) == ("", True)


RUN = "lagbench run"
SET = "--set=consumer.process_ms=3 '--set=name=a; b' "


@pytest.mark.parametrize(
    ("conf", "command"),
    [
        ({}, f"{RUN} quick_spike --policy lag-fast --seed 1"),
        # Quoted for a shell; the seed only once.
        (
            {"overrides": {"seed": "1", "consumer.process_ms": "3", "name": "a; b"}},
            f"{RUN} quick_spike --policy lag-fast {SET}--seed 1",
        ),
        (
            {"scenario": "my own/a.yaml", "policy": "so.yaml"},
            f"{RUN} 'my own/a.yaml' --policy so.yaml --seed 1",
        ),
        ({"scenario": "my.yaml", "policy": None}, f"{RUN} my.yaml --seed 1"),
    ],
)
def test_an_open_verdict_is_repeated_as_the_run_was_given(
    conf: dict[str, Any], command: str
) -> None:
    """The first step names what left it open, and the command that repeats the cell."""
    (step,) = next_steps(GOOD, OPEN, conf)

    assert (step.because, step.command) == ("no fence", command)


@pytest.mark.parametrize("has_file", [True, False])
def test_a_page_repeats_a_run_of_an_own_file_from_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_file: bool
) -> None:
    """Where the file is not there, it names the copies in the run folder, and changes nothing."""
    monkeypatch.setattr(page, "HOME", tmp_path)
    monkeypatch.setattr(catalog_files, "HOME", tmp_path)
    folder = quick_spike_run().write(tmp_path / "runs")
    conf = {"scenario": "mine/a.yaml", "policy": None, "overrides": {"partitions": "12"}}
    folder.update_manifest(conf=conf)
    if has_file:
        RunFolder(tmp_path).write_text("mine/a.yaml", "name: a")
    copies = {
        "scenario": f"runs/{folder.run_id}/scenario.yaml",
        "policy": f"runs/{folder.run_id}/policy.yaml",
    }

    assert page._repeatable(folder, conf) == (conf if has_file else copies)
    for damaged in ({**conf, "scenario": 5}, {**conf, "policy": []}, {"overrides": [1]}, ["x"]):
        assert page._repeatable(folder, damaged) == copies


def test_a_cheaper_policy_keeps_more_lag_within_the_same_replicas() -> None:
    """The nearest first; not one that scales further, begins higher, or has the same threshold."""

    def limits(least: int, most: int, lag: float | None) -> PolicyLimits:
        return PolicyLimits(least, most, lag, "")

    others = {
        "same": limits(2, 12, 500),
        "far": limits(2, 12, 9000),
        "near": limits(0, 6, 600),
        "wide": limits(2, 24, 900),
        "high": limits(3, 12, 900),
        "hours": limits(2, 12, None),
    }

    assert cheaper_policies(GOOD, limits(2, 12, 500), others) == ["near", "far"]
    assert cheaper_policies(GOOD, limits(2, 12, None), others) == []


@pytest.mark.parametrize(("limit", "tried"), [(None, ["persistent-lag-cost-optimised"]), (20, [])])
def test_a_cheaper_policy_holds_the_slos_in_the_simulator(
    tmp_path: Path, limit: float | None, tried: list[str]
) -> None:
    """It drains in more than 20 s; what is made for Spark is not for these pods."""
    folder = quick_spike_run().write(tmp_path)
    scenario = yaml.safe_load(folder.read_text(folder.scenario))
    slos = {"flips": None, "reaction_seconds": None, "drain_seconds": limit}
    folder.write_text(folder.scenario, yaml.safe_dump(scenario | {"slos": slos}))

    assert page._cheaper(folder, GOOD) == tried


def test_an_observed_group_gets_no_command_on_a_scenario() -> None:
    """No file of the catalog has its load, so a command to run it would be rejected."""
    seen = Observation(group="shop", topic="orders", pod_rate_per_second=100)
    update = {"observation": seen, "accounting_level": "commits", "scenario": "observed"}
    limits = Slos.model_validate(level_of("commits").default_limits())
    run = measures_with(scaling={"flips": 3, "self_made_flips": 3}).model_copy(update=update)
    open_run = run.model_copy(update={"doubts": (TWO_TABLES,)})

    failed = next_steps(run, judge(run, limits.model_copy(update={"flips": 0})))
    unsure = next_steps(open_run, judge(open_run, limits.model_copy(update={"flips": 9})))

    assert "lower the gain" in text(failed)
    assert "observed_load.csv" in text(failed)
    assert unsure[0].because == "two tables differ"
    assert {step.command for step in (*failed, *unsure)} == {""}


def test_the_balancer_of_a_users_consumer_is_not_a_setting_of_the_scenario() -> None:
    """A run rejects consumer.balancer with consumer.kind own, so no command sets it."""
    limits = Slos.model_validate({**level_of("output").default_limits(), "standstill_seconds": 0.1})
    still = {"group_seconds": 9.0, "group_low_seconds": 8.9, "group_high_seconds": 9.1}
    own = {"consumer_kind": "own", "accounting_level": "output"}
    run = measures_with(standstill=still).model_copy(update=own)

    found = text(next_steps(run, judge(run, limits)))

    assert "close on SIGTERM" in found
    assert "consumer.balancer" not in found
