"""Actions of a scenario, growing topics, and the second group."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import pytest

from lagbench.catalog.catalog import checked_cell, load_scenario
from lagbench.core.cluster.policy_manifest import (
    ONLY_EMBEDDED,
    refuse_on_cluster,
    refuse_without_own_broker,
)
from lagbench.core.compare.cell_identity import cell_id
from lagbench.core.measures.evidence.played_actions import HIDES
from lagbench.core.scenario.actions import (
    Action,
    ActionKind,
    KillPod,
    PausePod,
    RollingRestart,
    actions_seconds,
    balancers_of,
    downstream_pace,
    drawn,
    restart_text,
)
from lagbench.core.scenario.event_stream import partitions_of, planned_partitions
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import PartitionPlan, Scenario, shared_actions
from lagbench.core.scenario.stream_tail import RUN_TAIL_FIELD, tail_of, tail_of_run
from lagbench.errors import WrongInput
from lagbench.programs.actions.performers import PERFORMERS

KILL = KillPod(kind="kill_pod", at_seconds=40)
PAUSE = PausePod(kind="pause_pod", at="lag_drained", for_seconds=20)


MODELS = get_args(get_args(Action)[0])


def test_every_kind_is_known_everywhere() -> None:
    """Each kind has a model, a row of what it hides, and a program that plays it."""
    modelled = {get_args(model.model_fields["kind"].annotation)[0] for model in MODELS}

    assert modelled == set(HIDES) == set(PERFORMERS) == set(get_args(ActionKind))


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"actions": "[{kind: kill_pod, at_seconds: 86}]"}, "actions.0.at_seconds"),
        (
            {"actions": "[{kind: grow_partitions, at_seconds: 86, partitions: 24}]"},
            "actions.0.at_seconds",
        ),
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


SLOW = {"kind": "slow_downstream", "at_seconds": 20, "for_seconds": 10, "factor": 3}
CUT = {"kind": "broker_unreachable", "at_seconds": 20, "for_seconds": 10}


def scenario(*actions: dict[str, Any]) -> Scenario:
    """Return a scenario with these actions."""
    data: dict[str, Any] = {
        "name": "disturbed",
        "description": "one",
        "partitions": 4,
        "profile": {"kind": "steady", "rate_per_second": 100, "duration_seconds": 60},
        "policy": "lag-quick",
        "actions": list(actions),
    }
    return Scenario.model_validate(data)


def test_the_consumers_pace_is_that_of_the_actions() -> None:
    """Slowdowns that touch are two, and other actions change no pace."""
    found = scenario(SLOW, CUT, SLOW | {"at_seconds": 30, "factor": 2})

    assert downstream_pace(found.actions).rows == [(20, 30, 3), (30, 40, 2)]
    assert downstream_pace(scenario(CUT).actions).is_even


@pytest.mark.parametrize("kind", get_args(ActionKind))
def test_a_target_plays_what_its_api_and_its_rights_allow(kind: str) -> None:
    """A cluster sends no signal and stops no broker; the latter does not go with others' Kafka."""
    fields = {"for_seconds": 5, "policy": "lag-quick", "factor": 3, "partitions": 24}
    model = next(m for m in MODELS if kind in get_args(m.model_fields["kind"].annotation))
    taken = {name: value for name, value in fields.items() if name in model.model_fields}
    found = scenario(SLOW, {"kind": kind, "at_seconds": 1, **taken})

    for refuse, kinds in (
        (refuse_on_cluster, {*ONLY_EMBEDDED}),
        (refuse_without_own_broker, {"broker_restart", "broker_unreachable"}),
    ):
        if kind in kinds:
            with pytest.raises(WrongInput, check=lambda error: error.field == "actions.1.kind"):
                refuse(found)
        else:
            refuse(found)


TWICE = PartitionPlan(6, ((40.0, 12), (60.5, 24)))
NS = 1_000_000_000


def test_the_partitions_at_a_second_are_those_of_the_last_growth() -> None:
    """The second of a growth belongs to it already."""
    assert [TWICE.at(second) for second in (0, 39.9, 40, 60.4, 60.5, 900)] == [6, 6, 12, 12, 24, 24]
    offsets = np.array([0, 40 * NS - 1, 40 * NS, 60_500_000_000], dtype=np.int64)
    assert TWICE.at_offsets(offsets).tolist() == [6, 6, 12, 24]
    assert (TWICE.last, PartitionPlan(6).last) == (24, 6)


@pytest.mark.parametrize("growths", [[(40, 6)], [(40, 12), (40, 13)], [(40, 12), (50, 12)]])
def test_a_plan_that_does_not_grow_is_rejected(growths: list[tuple[float, int]]) -> None:
    """Seconds and partitions ascend, from more than there are at the start."""
    with pytest.raises(ValueError, match="must ascend"):
        PartitionPlan(6, tuple(growths))


def test_a_message_goes_by_the_partitions_of_its_planned_instant() -> None:
    """Before the growth by the first count, at and after it by the next one."""
    ids = np.arange(1000, dtype=np.uint64)
    before, at = np.full(1000, 40 * NS - 1), np.full(1000, 40 * NS)

    assert np.array_equal(planned_partitions(ids, before, TWICE), partitions_of(ids, 6))
    assert np.array_equal(planned_partitions(ids, at, TWICE), partitions_of(ids, 12))
    assert np.array_equal(planned_partitions(ids, at, PartitionPlan(6)), partitions_of(ids, 6))
    half = planned_partitions(ids, np.where(ids % 2 == 0, before, at), TWICE)
    assert half.max() == 11
    assert half[ids % 2 == 0].max() == 5


def test_pods_may_be_as_many_as_partitions_at_the_end() -> None:
    """A ceiling above the partitions of the start is allowed if the topic grows to it."""
    few = {"partitions": "6"}
    with pytest.raises(WrongInput):
        checked_cell("quick_spike", overrides=few)

    growth = "[{kind: grow_partitions, at_seconds: 40, partitions: 12}]"
    grown = checked_cell("quick_spike", overrides={**few, "actions": growth})

    assert grown.scenario.partition_plan.last == grown.policy.limits.ceiling_replicas == 12


FIRST = RunNames("quick-spike-1")
OWN = ("processed_topic", "telemetry_topic", "group", "consumers", "recorder", "policy_object")


def quick_spike(second: str, *settings: str) -> Scenario:
    """Return quick_spike with a second group, given as YAML, and further key=value settings."""
    overrides = dict(setting.split("=", 1) for setting in settings)
    return load_scenario("quick_spike", overrides | {"second_group": second})


def digest(scenario: Scenario) -> str:
    """Return the identity of the scenario's cell under fixed policies."""
    return cell_id(scenario, policy_digest="p", target_digest="t", fidelity="processes")


def test_what_the_second_group_leaves_out_is_the_first_group_s() -> None:
    """Only the given fields differ; its view has no further group, and a run folder's is equal."""
    scenario = quick_spike("{consumer: {process_ms: 5}, slos: {flips: 3}}")

    second, alone = scenario.of_second_group(), load_scenario("quick_spike")

    changed = {
        "consumer": alone.consumer.model_copy(update={"process_ms": 5}),
        "slos": alone.slos.model_copy(update={"flips": 3}),
    }
    assert second == alone.model_copy(update=changed)
    assert quick_spike("{}").of_second_group() == alone
    assert Scenario.model_validate(scenario.model_dump(mode="json")) == scenario


def test_the_second_group_s_policy_is_its_own_or_that_of_the_run() -> None:
    """Without one it gets the policy that replaces the scenario's; one group mentions no second."""
    own = checked_cell("quick_spike", overrides={"second_group": "{policy: lag-default}"})
    inherited = checked_cell(
        "quick_spike", policy="lag-fast-up-slow-down", overrides={"second_group": "{}"}
    )

    assert [cell.policy_name for cell in own.groups] == ["lag-quick", "lag-default"]
    assert [cell.policy_name for cell in inherited.groups] == ["lag-fast-up-slow-down"] * 2
    alone = checked_cell("quick_spike")
    assert (alone.second, "second_group" in alone.scenario_text) == (None, False)


def test_the_second_group_is_part_of_the_cell() -> None:
    """Runs with another second group are of another cell; its limits and policy name are not."""
    alone, slow = load_scenario("quick_spike"), quick_spike("{consumer: {process_ms: 5}}")
    strict = quick_spike("{consumer: {process_ms: 5}, slos: {flips: 3}, policy: lag-default}")

    assert len({digest(alone), digest(quick_spike("{}")), digest(slow)}) == 3
    assert digest(strict) == digest(slow)


def test_the_first_group_has_the_names_of_a_run_with_one_group() -> None:
    """They are written out here: dashboards and runs of earlier versions have them."""
    assert {own: getattr(FIRST, own) for own in OWN} == {
        "processed_topic": "lagbench.quick-spike-1.processed",
        "telemetry_topic": "lagbench.quick-spike-1.telemetry",
        "group": "enrich.quick-spike-1",
        "consumers": "consumer",
        "recorder": "recorder",
        "policy_object": "consumer",
    }


def test_only_actions_on_all_groups_are_the_second_group_s() -> None:
    """They keep their order and get the numbers of its own scenario."""
    actions: list[dict[str, Any]] = [
        {"kind": "kill_pod", "at_seconds": 10},
        {"kind": "broker_restart", "at_seconds": 20, "for_seconds": 5},
        {"kind": "slow_downstream", "at_seconds": 40, "for_seconds": 5, "factor": 2},
    ]
    data = load_scenario("quick_spike").model_dump(mode="json")
    scenario = Scenario.model_validate({**data, "actions": actions, "second_group": {}})

    second = scenario.of_second_group()

    assert second is not None
    assert [action.kind for action in second.actions] == ["broker_restart"]
    assert shared_actions(scenario.actions) == {1: 0}


def test_the_tail_is_that_of_the_run() -> None:
    """Its length depends on the first group's actions, so the second group's manifest notes it."""
    data = load_scenario("quick_spike").model_dump(mode="json")
    pause = {"kind": "pause_pod", "at": "lag_drained", "for_seconds": 30}
    scenario = Scenario.model_validate({**data, "actions": [pause], "second_group": {}})
    second = scenario.of_second_group()
    tail = tail_of(scenario, started_replicas=2)

    assert second is not None
    assert tail is not None
    assert tail_of(second, started_replicas=2) != tail
    noted = {RUN_TAIL_FIELD: dataclasses.asdict(tail)}
    assert tail_of_run(noted, second, started_replicas=2) == tail
    assert tail_of_run({RUN_TAIL_FIELD: None}, second, started_replicas=2) is None
    assert tail_of_run({}, scenario, started_replicas=2) == tail
