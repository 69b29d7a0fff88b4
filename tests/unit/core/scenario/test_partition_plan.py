"""The partitions that are planned for each instant of the stream."""

from __future__ import annotations

import numpy as np
import pytest

from lagbench.catalog.catalog import checked_cell, load_scenario
from lagbench.core.cluster.action_rights import refuse_on_cluster
from lagbench.core.scenario.partition_plan import PartitionPlan
from lagbench.core.scenario.stream.key_skew import partitions_of, planned_partitions
from lagbench.errors import WrongInput

TWICE = PartitionPlan(6, ((40.0, 12), (60.5, 24)))
NS = 1_000_000_000


def growth(at_seconds: float, partitions: int) -> str:
    """Return an action as YAML."""
    return f"{{kind: grow_partitions, at_seconds: {at_seconds}, partitions: {partitions}}}"


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


def test_a_growth_lies_in_the_stream() -> None:
    """quick_spike has 85 seconds."""
    with pytest.raises(WrongInput, check=lambda error: error.field == "actions.0.at_seconds"):
        checked_cell("quick_spike", overrides={"actions": f"[{growth(86, 24)}]"})


def test_pods_may_be_as_many_as_partitions_at_the_end() -> None:
    """A ceiling above the partitions of the start is allowed if the topic grows to it."""
    few = {"partitions": "6"}
    with pytest.raises(WrongInput):
        checked_cell("quick_spike", overrides=few)

    grown = checked_cell("quick_spike", overrides={**few, "actions": f"[{growth(40, 12)}]"})

    assert grown.scenario.partition_plan.last == grown.policy.limits.ceiling_replicas == 12


def test_a_growth_is_played_on_a_cluster() -> None:
    """It needs rights on Kafka only, which a run that creates the topic has."""
    refuse_on_cluster(load_scenario("quick_spike", {"actions": f"[{growth(40, 24)}]"}))
