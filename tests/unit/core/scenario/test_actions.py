"""Actions of a scenario: their models, their draw, their limits."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from lagbench.catalog.catalog import checked_cell, load_scenario
from lagbench.core.cluster.action_rights import ONLY_EMBEDDED, refuse_on_cluster
from lagbench.core.measures.evidence.actions import HIDES
from lagbench.core.scenario.actions import (
    Action,
    ActionKind,
    KillPod,
    PausePod,
    RollingRestart,
    actions_seconds,
    balancers_of,
    drawn,
    restart_text,
)
from lagbench.core.scenario.stream.tail import tail_of
from lagbench.errors import WrongInput
from lagbench.programs.actions.registry import PERFORMERS

KILL = KillPod(kind="kill_pod", at_seconds=40)
PAUSE = PausePod(kind="pause_pod", at="lag_drained", for_seconds=20)


def test_every_kind_is_known_everywhere() -> None:
    """Each kind has a model, a row of what it hides, and a program that plays it."""
    kinds = set(get_args(ActionKind))
    models = get_args(get_args(Action)[0])
    modelled = {get_args(model.model_fields["kind"].annotation)[0] for model in models}

    assert modelled == set(HIDES) == set(PERFORMERS) == kinds
    assert set(ONLY_EMBEDDED) <= kinds


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"actions": "[{kind: kill_pod, at_seconds: 86}]"}, "actions.0.at_seconds"),
        (
            {"actions": "[{kind: kill_pod, at: lag_drained}]", "tail": "none"},
            "actions.0.at",
        ),
        (
            {"actions": "[{kind: pause_pod, at_seconds: 70, for_seconds: 20}]", "tail": "none"},
            "actions.0.at_seconds",
        ),
        (
            {"actions": "[{kind: lag_scaler_down, at_seconds: 1, for_seconds: 1}]"},
            "actions.0.kind",
        ),
        (
            {"actions": "[{kind: swap_policy, at_seconds: 1, policy: no-such}]"},
            "actions.0.policy",
        ),
        (
            {"actions": "[{kind: swap_policy, at_seconds: 1, policy: lag-overscale-2p}]"},
            "spec.maxReplicaCount",
        ),
    ],
)
def test_an_action_that_cannot_be_played_is_refused(settings: dict[str, str], field: str) -> None:
    """Without load, target or a fitting policy nothing is started."""
    with pytest.raises(WrongInput) as refused:
        checked_cell("quick_spike", overrides=settings)

    assert refused.value.field == field


def test_a_swap_brings_its_policy_along() -> None:
    """The cell has the checked policy of each swap, by the action's number."""
    actions = "[{kind: kill_pod, at_seconds: 1}, {kind: swap_policy, at_seconds: 2, policy: P}]"

    cell = checked_cell(
        "quick_spike", overrides={"actions": actions.replace("P", "persistent-lag")}
    )

    assert {number: one.name for number, one in cell.swapped.items()} == {1: "persistent-lag"}


@pytest.mark.parametrize("kind", sorted(ONLY_EMBEDDED))
def test_a_cluster_refuses_what_its_api_or_its_rights_do_not_allow(kind: str) -> None:
    """The message names the action."""
    extra = ", for_seconds: 5" if kind != "kill_pod" else ""
    actions = f"[{{kind: {kind}, at_seconds: 1{extra}}}]"
    scenario = load_scenario("quick_spike", {"actions": actions})

    with pytest.raises(WrongInput, check=lambda error: error.field == "actions.0.kind"):
        refuse_on_cluster(scenario)


def test_a_cluster_plays_what_its_rights_allow() -> None:
    """A swap and a restart are writes that every run makes."""
    actions = "[{kind: rolling_restart, at_seconds: 1}]"

    refuse_on_cluster(load_scenario("quick_spike", {"actions": actions}))


def test_the_seed_draws_the_pods() -> None:
    """The same seed draws the same places; over many seeds each place is drawn."""
    pods = ["a", "b", "c", "d"]

    assert drawn(pods, 2, seed=7, number=0) == drawn(pods, 2, seed=7, number=0)
    assert {drawn(pods, 1, seed=seed, number=0)[0] for seed in range(50)} == set(pods)
    assert drawn(pods, 9, seed=7, number=0) == pods
    assert any(
        drawn(pods, 1, seed=s, number=0) != drawn(pods, 1, seed=s, number=1) for s in range(9)
    )


def test_actions_lengthen_the_load_that_follows() -> None:
    """The tail lasts as long as an action may after the drain; without actions nothing changes."""
    plain = load_scenario("quick_spike")
    acting = plain.model_copy(update={"actions": (KILL, PAUSE)})
    longer = actions_seconds(acting.actions, plain.timeouts.drain_seconds)
    tails = [tail_of(scenario, started_replicas=2) for scenario in (plain, acting)]

    assert actions_seconds((), 300) == 0
    assert longer == plain.timeouts.drain_seconds + 20 + 660
    assert tails[0] is not None
    assert tails[1] is not None
    assert tails[1].most_seconds - tails[0].most_seconds == longer


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, ""),
        ({"balancer": "range"}, "range"),
        ({"env": {"MODE": "a", "PASSWORD": "hush"}}, "MODE, PASSWORD"),
    ],
)
def test_a_restart_says_what_is_new_without_a_value(fields: dict[str, Any], named: str) -> None:
    """Values of variables may be secrets; plan and the action's record show names alone."""
    restart = {"kind": "rolling_restart", "at_seconds": 1, **fields}

    text = restart_text(RollingRestart.model_validate(restart))
    assert (bool(text), text.endswith(named), "hush" in text) == (bool(fields), True, False)


def test_a_run_has_the_balancers_of_its_restarts() -> None:
    """In their order; a restart that names none changes none."""
    actions = (
        RollingRestart(kind="rolling_restart", at_seconds=1),
        RollingRestart(kind="rolling_restart", at_seconds=2, balancer="consumer"),
    )

    assert balancers_of("range", actions) == ("range", "consumer")
