"""A second consumer group on the topic: what it takes from the first, and its names."""

from __future__ import annotations

import dataclasses
from typing import Any

from lagbench.catalog.catalog import checked_cell, load_scenario
from lagbench.core.compare.cell_identity import cell_id
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import Scenario, shared_actions
from lagbench.core.scenario.stream_tail import RUN_TAIL_FIELD, tail_of, tail_of_run

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
    """Only the given fields differ; topic, load and seed are those of the run."""
    scenario = quick_spike("{consumer: {process_ms: 5}, slos: {flips: 3}}")

    second = scenario.of_second_group()

    assert second is not None
    assert second.consumer == scenario.consumer.model_copy(update={"process_ms": 5})
    assert second.slos == scenario.slos.model_copy(update={"flips": 3})
    unchanged = set(Scenario.model_fields) - {"consumer", "slos", "second_group"}
    for field in unchanged:
        assert getattr(second, field) == getattr(scenario, field), field


def test_an_empty_second_group_is_a_copy_of_the_first() -> None:
    """`second_group: {}` is enough; its view of the run has no further group."""
    scenario = quick_spike("{}")

    assert scenario.of_second_group() == scenario.model_copy(update={"second_group": None})


def test_the_effective_scenario_is_read_as_the_same() -> None:
    """A run folder's scenario is complete, so reading it again changes nothing."""
    scenario = quick_spike("{consumer: {balancer: range}, policy: lag-default}")

    again = Scenario.model_validate(scenario.model_dump(mode="json"))

    assert again == scenario


def test_the_second_group_s_policy_is_its_own_or_that_of_the_run() -> None:
    """Without one it gets the policy that replaces the scenario's, too."""
    own = checked_cell("quick_spike", overrides={"second_group": "{policy: lag-default}"})
    inherited = checked_cell(
        "quick_spike", policy="lag-fast-up-slow-down", overrides={"second_group": "{}"}
    )

    assert own.second is not None
    assert inherited.second is not None
    assert (own.policy_name, own.second.policy_name) == ("lag-quick", "lag-default")
    assert inherited.second.policy_name == "lag-fast-up-slow-down"


def test_a_scenario_with_one_group_does_not_mention_a_second() -> None:
    """Text and cell of such a run are those of versions without second groups."""
    cell = checked_cell("quick_spike")

    assert cell.second is None
    assert "second_group" not in cell.scenario_text


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
