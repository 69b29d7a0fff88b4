"""What to do next follows from what the run measured, and from nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.measures import Measures
from lagbench.core.measures.doubts import EVERYTHING, Doubt
from lagbench.core.measures.evidence import Observation
from lagbench.core.scenario import Slos, level_of
from lagbench.core.verdict import Verdict, judge
from lagbench.report.next_steps import NextStep, next_steps

TWO_TABLES = Doubt(code="lag_table", about=EVERYTHING, text="two tables differ")


def changed(part: str, **fields: Any) -> Measures:
    """Return the measures of quick_spike with other values of one part."""
    measures = quick_spike_measures()
    found = getattr(measures, part).model_copy(update=fields)
    return measures.model_copy(update={part: found})


def steps(measures: Measures, **limits: Any) -> list[NextStep]:
    """Return the steps after a verdict with these limits."""
    return next_steps(measures, judge(measures, Slos(drain_seconds=120).model_copy(update=limits)))


def text(found: list[NextStep]) -> str:
    """Return all steps as one text."""
    return "\n".join(f"{step.do}; {step.because}; {step.command}" for step in found)


def test_a_run_that_holds_leads_to_its_price() -> None:
    """A pass has one step: look for something cheaper, in the simulator."""
    (step,) = steps(quick_spike_measures())

    assert step.command == "lagbench simulate quick_spike --policy lag-fast --seeds 20"


def test_an_open_verdict_is_repeated_first() -> None:
    """The first step names what left it open, and the command that repeats the cell."""
    measures = quick_spike_measures()
    verdict = Verdict(run_id=measures.run_id, status="undetermined", reasons=("no fence",), slos=())

    first, *_ = next_steps(measures, verdict)

    assert first.because == "no fence"
    assert first.command == "lagbench run quick_spike --policy lag-fast --seed 1"


def test_a_late_reaction_names_its_longest_link() -> None:
    """The HPA's sync ruled the reaction of this run, so that the pods' start is not blamed."""
    found = text(steps(quick_spike_measures(), reaction_seconds=5))

    assert "t2 (autoscaler reads it), took 14.0 s" in found
    assert "useCachedMetrics" in found
    assert "start of a pod" not in found


def test_from_zero_the_poll_is_what_to_shorten() -> None:
    """KEDA's pollingInterval has an effect at zero replicas alone."""
    idle = changed("reaction", ruling_clock="keda_poll")

    found = text(steps(idle, reaction_seconds=5))

    assert "pollingInterval" in found
    assert "useCachedMetrics" not in found


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "spread the keys"),
        ({"skew_limited_seconds": 10.0}, "more partitions, or"),
    ],
)
def test_a_slow_drain_is_blamed_on_what_limits_it(fields: dict[str, Any], told: str) -> None:
    """Near the bound of the hottest partition it is the keys, else the pods' number."""
    assert told in text(steps(changed("drain", **fields), drain_seconds=20))


def test_a_group_at_its_ceiling_is_told_of_it() -> None:
    """With idle partitions left, maxReplicaCount is what holds the drain."""
    slow = changed("drain", skew_limited_seconds=10.0)
    scaling = slow.scaling.model_copy(update={"ceiling_replicas": 6, "max_ready_replicas": 6})

    found = text(steps(slow.model_copy(update={"scaling": scaling}), drain_seconds=20))

    assert "maxReplicaCount up to the 12 " in found


def test_self_made_flips_ask_for_a_lower_gain() -> None:
    """Reversals without one of the load are the loop's own; those of the load are not."""
    assert "lower the gain" in text(steps(changed("scaling", self_made_flips=2)))
    assert "lower the gain" not in text(steps(changed("scaling", load_following_flips=2)))


def test_a_dip_leads_to_the_other_protocol() -> None:
    """The command differs from the run in the balancer alone."""
    found = text(steps(quick_spike_measures(), rebalance_dip_percent=1))

    assert "--seed 1 --set=consumer.balancer=consumer" in found


def test_no_command_on_the_second_group_acts_on_the_first() -> None:
    """A dip changes the second group's balancer, and no simulation of the first is proposed."""
    measures = quick_spike_measures()
    dipped = judge(measures, Slos(drain_seconds=120, rebalance_dip_percent=1))
    passed = judge(measures, Slos(drain_seconds=120))

    after_dip = text(next_steps(measures, dipped, is_second=True))
    (step,) = next_steps(measures, passed, is_second=True)

    assert "--set=second_group.consumer.balancer=consumer" in after_dip
    assert "--set=consumer.balancer" not in after_dip
    assert (step.command, "second group" in step.do) == ("", True)


def test_a_command_repeats_the_changed_fields() -> None:
    """What the run changed stands in the command, quoted for a shell; the seed only once."""
    measures = quick_spike_measures()
    verdict = Verdict(run_id=measures.run_id, status="undetermined", reasons=("no fence",), slos=())
    overrides = {"seed": "1", "consumer.process_ms": "3", "name": "a; b"}

    (step,) = next_steps(measures, verdict, {"overrides": overrides})

    assert step.command == (
        "lagbench run quick_spike --policy lag-fast --set=consumer.process_ms=3"
        " '--set=name=a; b' --seed 1"
    )


@pytest.mark.parametrize(
    ("policy", "files"),
    [("so.yaml", ["my.yaml", "so.yaml"]), ("lag-fast", ["my.yaml"]), (None, ["my.yaml"])],
)
def test_a_command_names_the_files_that_the_run_was_given(
    policy: str | None, files: list[str]
) -> None:
    """They stand in it and in its comment: a file may have the name of a catalog's scenario."""
    measures = quick_spike_measures()
    verdict = Verdict(run_id=measures.run_id, status="undetermined", reasons=("no fence",), slos=())

    (step,) = next_steps(measures, verdict, {"scenario": "my.yaml", "policy": policy})

    command, comment = step.command.split("#")
    asked = f"--policy {policy} " if policy else ""
    assert command.strip() == f"lagbench run my.yaml {asked}--seed 1"
    assert re.findall(r"\S+\.yaml", comment) == files


def test_lost_messages_come_before_speed() -> None:
    """A run that loses messages and reacts late is first told of the messages."""
    lost = changed("accounting", lost=3)

    first, *_ = steps(lost, reaction_seconds=5)

    assert "commit" in first.do
    assert "messages lost" in first.because


def test_an_observed_group_gets_no_command_on_a_scenario() -> None:
    """No file of the catalog has its load, so a command to run it would be rejected."""
    seen = Observation(group="shop", topic="orders", pod_rate_per_second=100)
    update = {"observation": seen, "accounting_level": "commits", "scenario": "observed"}
    limits = Slos.model_validate(level_of("commits").default_limits())
    run = changed("scaling", flips=3, self_made_flips=3).model_copy(update=update)
    open_run = run.model_copy(update={"doubts": (TWO_TABLES,)})

    failed = next_steps(run, judge(run, limits.model_copy(update={"flips": 0})))
    unsure = next_steps(open_run, judge(open_run, limits.model_copy(update={"flips": 9})))

    assert "lower the gain" in text(failed)
    assert "observed_load.csv" in text(failed)
    assert unsure[0].because == "two tables differ"
    assert {step.command for step in (*failed, *unsure)} == {""}


def test_the_balancer_of_a_users_consumer_is_not_a_setting_of_the_scenario() -> None:
    """A run rejects consumer.balancer with consumer.kind own, so no command sets it."""
    own = {"consumer_kind": "own", "accounting_level": "output"}
    limits = Slos.model_validate({**level_of("output").default_limits(), "standstill_seconds": 0.1})
    run = changed("standstill", group_seconds=9.0, group_low_seconds=8.9, group_high_seconds=9.1)
    run = run.model_copy(update=own)

    found = text(next_steps(run, judge(run, limits)))

    assert "close on SIGTERM" in found
    assert "consumer.balancer" not in found
