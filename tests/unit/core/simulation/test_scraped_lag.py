"""A policy on Prometheus in the simulator: how old the lag is that it sees."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import yaml

from lagbench.catalog.catalog import load_policy, load_scenario
from lagbench.core.policy import CheckedPolicy, check_policy
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation.environment import SimulatedEnvironment
from lagbench.core.simulation.simulate import simulate
from lagbench.core.simulation.simulated_autoscaler import ScrapedLag
from lagbench.core.simulation.world import World
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

QUICK_SPIKE = load_scenario("quick_spike")


def policy(query: str | None = None) -> CheckedPolicy:
    """Return prometheus-lag, with another query."""
    found = load_policy("prometheus-lag")
    if query is None:
        return found
    manifest: dict[str, Any] = copy.deepcopy(dict(found.manifest))
    manifest["spec"]["triggers"][0]["metadata"]["query"] = query
    return check_policy(manifest, where=found.where)


def world_of(scenario: Scenario, **changes: Any) -> World:
    """Return a world with one pod, which cannot keep up with the spike."""
    random = np.random.Generator(np.random.Philox(1))
    return World(scenario, SimulatedEnvironment(**changes), random, replicas=1)


def total(world: World) -> float:
    """Return the lag of this instant."""
    end, committed = world.offsets()
    return float(np.sum(end - committed))


def test_a_sample_is_seen_once_it_is_scraped_and_until_the_next_one() -> None:
    """The recorder's reading is half a second old when Prometheus scrapes it."""
    world = world_of(QUICK_SPIKE)
    lag = ScrapedLag(world)
    seen = []
    for second in (20.0, 22.0):
        world.advance(second)
        lag.sample()
        seen.append(total(world))

    assert 0 < seen[0] < seen[1]
    assert lag.total_at(20) == 0
    assert [lag.total_at(second) for second in (21, 22, 23)] == [seen[0], seen[0], seen[1]]


def test_a_longer_scrape_interval_reacts_later() -> None:
    """With a scrape every half a minute the policy sees the spike a scrape later."""

    def reaction(seconds: float) -> float:
        around = SimulatedEnvironment(scrape_seconds=seconds)
        found = simulate(QUICK_SPIKE, policy(), environment=around).measures.reaction_seconds
        assert found is not None
        return found

    assert reaction(30) > reaction(2)


@pytest.mark.parametrize("query", ["up", 'avg(kafka_consumergroup_lag{consumergroup="enrich"})'])
def test_a_query_of_something_else_is_rejected_by_name(query: str) -> None:
    """Nothing in the simulated world says what it would give."""
    with pytest.raises(WrongInput) as caught:
        simulate(QUICK_SPIKE, policy(query))

    assert (caught.value.field, caught.value.value) == ("spec.triggers[0].metadata.query", query)


def test_the_embedded_bench_scrapes_as_often_as_the_simulator_says() -> None:
    """The interval stands in the Deployment's configuration and in the simulator's assumptions."""
    text = (PROJECT_ROOT / "k8s/base/prometheus/deployment.yaml").read_text(encoding="utf-8")
    script = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]["args"][0]
    config = yaml.safe_load(script.partition("<<END\n")[2].partition("END\n")[0])

    assert config["global"]["scrape_interval"] == f"{SimulatedEnvironment().scrape_seconds:g}s"
