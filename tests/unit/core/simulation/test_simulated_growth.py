"""A topic that grows in the simulated world: nothing is lost, and more pods can work."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from lagbench.catalog.catalog import checked_cell
from lagbench.core.scenario.stream.profile import offered_load
from lagbench.core.simulation.backlog import Traffic
from lagbench.core.simulation.environment import SimulatedEnvironment
from lagbench.core.simulation.simulate import is_simulated, simulate
from lagbench.core.simulation.simulation_measures import Simulation
from lagbench.core.simulation.world import World

GROWTH = "{kind: grow_partitions, at_seconds: 20, partitions: 12}"
LOAD = offered_load(checked_cell("quick_spike").scenario.profile)


def world(replicas: int) -> World:
    """Return a world of quick_spike with 6 partitions, at the start of the stream."""
    cell = checked_cell("quick_spike", overrides={"partitions": "6", "actions": f"[{GROWTH}]"})
    random = np.random.Generator(np.random.Philox(1))
    return World(cell.scenario, SimulatedEnvironment(), random, replicas=replicas)


@cache
def simulated(actions: str, partitions: str = "6") -> Simulation:
    """Return one simulation of quick_spike, whose policy wants up to 12 replicas."""
    settings = {"partitions": partitions, "allow_overscale": "true", "actions": f"[{actions}]"}
    cell = checked_cell("quick_spike", overrides=settings)
    return simulate(cell.scenario, cell.policy)


def test_what_has_arrived_is_kept_and_what_comes_goes_by_the_new_shares() -> None:
    """Each partition's records are those of its shares before and after the growth."""
    traffic = Traffic(LOAD, np.array([0.5, 0.5]))
    traffic.grow(20.0, np.array([0.25, 0.25, 0.5]))

    before, at, later = traffic.count_at(10), traffic.count_at(20), traffic.count_at(40)
    first = traffic.records_of(0, np.array([10.0, 20.0, 40.0]))
    new = traffic.records_of(2, np.array([10.0, 20.0, 40.0]))
    assert first == pytest.approx([0.5 * before, 0.5 * at, 0.5 * at + 0.25 * (later - at)])
    assert new == pytest.approx([0.0, 0.0, 0.5 * (later - at)])
    now = traffic.records_by(np.array([10.0, 20.0, 40.0]))
    assert now == pytest.approx([0.5 * before, 0.5 * at, 0.5 * (later - at)])


def test_every_record_waits_or_is_committed_across_a_growth() -> None:
    """Ends sum up to what has arrived, commits never move back, lag is the rest."""
    found = world(4)
    committed = np.zeros(12)
    for second in np.arange(19.0, 200.0, 0.5):
        if second == 20.0:
            found.advance(20.0)
            found.grow(12)
        found.advance(float(second))
        end, commits = found.backlog.offsets_at(float(second))
        assert abs(int(end.sum()) - found.traffic.count_at(float(second))) <= len(end)
        assert (commits >= committed[: len(commits)]).all()
        committed[: len(commits)] = commits
        # What was done since the last commits, a second ago at most, is not committed yet.
        rest = int(end.sum() - commits.sum()) - found.backlog.lag_at(float(second))
        assert -len(end) <= rest <= 4 * found.pod_rate + len(end)
    assert (committed[6:] > 0).all()


def test_new_partitions_wait_until_a_member_finds_them() -> None:
    """The first member to look finds them after its share of 10 s; then the group rebalances."""
    found = world(4)
    found.advance(20.0)
    rebalances = len(found.fleet.rebalanced_at)

    found.grow(12)

    assert set(found.backlog.owners[6:]) == {-1}
    found.advance(21.9)
    assert len(found.fleet.rebalanced_at) == rebalances
    found.advance(23.0)
    assert len(found.fleet.rebalanced_at) == rebalances + 1
    assert -1 not in found.backlog.owners


def test_the_autoscaler_sees_the_new_partitions_and_the_group_is_faster() -> None:
    """KEDA caps at the partitions: 6, and 12 from its next look after the growth on."""
    assert is_simulated(world(2).scenario.actions[0])
    without, grown = simulated(""), simulated(GROWTH)

    assert without.measures.max_replicas <= 7
    assert grown.measures.max_replicas > 7
    assert grown.measures.drain_seconds is not None
    assert without.measures.drain_seconds is not None
    assert grown.measures.drain_seconds < without.measures.drain_seconds
    assert grown.measures.seconds_over_slo < without.measures.seconds_over_slo
