"""Actions, a growing topic and Prometheus' scrapes in the simulated world."""

from __future__ import annotations

import copy
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import yaml

from lagbench.catalog.catalog import Cell, checked_cell, load_policy, load_scenario
from lagbench.core.hpa.controller_flags import KUBERNETES_ANNOTATION
from lagbench.core.keda.triggers.promql import LoadQuery, parse_load_query
from lagbench.core.keda.triggers.trigger_parameters import SampledLag
from lagbench.core.policy.policy import Policy, check_policy
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.simulation.backlog import Traffic
from lagbench.core.simulation.simulate import is_simulated, left_out, simulate
from lagbench.core.simulation.simulated_autoscaler import ScrapedLag
from lagbench.core.simulation.simulated_world import SimulatedEnvironment, World
from lagbench.core.simulation.simulation_measures import Simulation
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

QUICK_SPIKE = load_scenario("quick_spike")
GROWTH = "{kind: grow_partitions, at_seconds: 20, partitions: 12}"


def cell(*actions: str, **overrides: str) -> Cell:
    """Return quick_spike with actions."""
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    return checked_cell("quick_spike", overrides={"actions": f"[{', '.join(actions)}]", **dotted})


@cache
def simulated(*actions: str, **overrides: str) -> Simulation:
    """Return one simulation of it."""
    made = cell(*actions, **overrides)
    swapped = {number: one.policy for number, one in made.swapped.items()}
    return simulate(made.scenario, made.policy, swapped=swapped)


def replicas_at(found: Simulation, second: float) -> int:
    """Return the wanted replicas at an instant."""
    place = int(np.searchsorted(found.timeline.second, second, side="right")) - 1
    return int(found.timeline.spec_replicas[place])


def world(made: Cell, replicas: int) -> World:
    """Return its world at the start of the stream."""
    random = np.random.Generator(np.random.Philox(1))
    return World(made.scenario, SimulatedEnvironment(), random, replicas=replicas)


def test_without_an_autoscaler_nothing_scales() -> None:
    """From its begin until its end the replicas stay, and the lag grows meanwhile."""
    down = simulated("{kind: autoscaler_down, at_seconds: 10, for_seconds: 40}")

    assert replicas_at(simulated(), 49) > 2
    assert (replicas_at(down, 49), replicas_at(down, 80)) == (2, 12)
    assert down.measures.peak_lag_records > simulated().measures.peak_lag_records


def test_killed_pods_leave_their_partitions_waiting() -> None:
    """The lag is higher for a session, and the replicas are not changed."""
    killed = simulated("{kind: kill_pod, at_seconds: 60, pods: 6}").measures

    assert killed.peak_lag_records > simulated().measures.peak_lag_records
    assert killed.max_replicas == simulated().measures.max_replicas
    assert killed.drain_seconds is not None


def test_a_killed_member_of_kip_848_stays_for_the_brokers_session() -> None:
    """Its partitions wait for 45 s instead of the 10 s of the classic protocols."""
    down = "{kind: autoscaler_down, at_seconds: 1, for_seconds: 100}"
    kill = "{kind: kill_pod, at_seconds: 2, pods: 1}"
    kip848, classic = (
        simulated(down, kill, consumer__balancer=balancer).measures.peak_lag_records
        for balancer in ("consumer", "cooperative-sticky")
    )

    assert kip848 > classic


def test_a_swap_follows_the_new_policy() -> None:
    """persistent-lag waits two minutes before it adds a pod: a spike of 60 s adds none."""
    swapped = simulated("{kind: swap_policy, at_seconds: 5, policy: persistent-lag}")

    assert replicas_at(simulated(), 60) > 2
    assert replicas_at(swapped, 60) == 2


def test_the_rest_is_left_out() -> None:
    """A kind without effect on replicas or capacity here, and a state that is not known before."""
    made = cell(
        "{kind: pause_pod, at_seconds: 1, for_seconds: 1}", "{kind: kill_pod, at: lag_drained}"
    )

    assert [is_simulated(action) for action in made.scenario.actions] == [False, False]
    assert list(left_out(made.scenario)) == ["pause_pod", "kill_pod"]


def with_down(policy: Policy, window: int, **rule: object) -> Policy:
    """Return the policy with another way down."""
    down = {"stabilizationWindowSeconds": window, **({"policies": [rule]} if rule else {})}
    behavior = {"scaleDown": down, "scaleUp": {"stabilizationWindowSeconds": 0}}
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": behavior}}
    manifest = {**policy.manifest, "spec": {**policy.manifest["spec"], "advanced": advanced}}
    return check_policy(manifest, where="changed")


def test_a_swap_keeps_the_memory_of_the_hpa() -> None:
    """A new window of 300 s sees no more than before the swap: it holds no pod that was to go."""
    swap = "{kind: swap_policy, at_seconds: 230, policy: lag-quick}"
    made = cell(swap, profile__after_seconds="500")
    slowly = with_down(made.policy, 0, type="Pods", value=1, periodSeconds=15)
    found = simulate(made.scenario, slowly, swapped={0: with_down(made.policy, 300)})

    assert replicas_at(found, 229) > 2
    assert replicas_at(found, 250) == 2


@pytest.mark.parametrize(("version", "is_early"), [("1.36", False), ("1.37", True)])
def test_a_swap_syncs_the_hpa_of_kubernetes_1_37_at_once(version: str, *, is_early: bool) -> None:
    """The swap comes 2 s after the spike, and the planned sync 10 s after it."""
    made = cell("{kind: swap_policy, at_seconds: 17, policy: lag-fast-up-slow-down}")
    noted = {"annotations": {KUBERNETES_ANNOTATION: version}}
    policies = [
        check_policy({**one.manifest, "metadata": {**one.manifest["metadata"], **noted}}, where="f")
        for one in (made.policy, made.swapped[0].policy)
    ]
    around = SimulatedEnvironment(hpa_sync_at_seconds=10.0)
    found = simulate(made.scenario, policies[0], swapped={0: policies[1]}, environment=around)

    assert (replicas_at(found, 18) > 2) is is_early


def test_an_autoscaler_that_comes_back_remembers_nothing() -> None:
    """Its window begins anew: 12 replicas stay for 300 s from its return at second 260."""
    down = "{kind: autoscaler_down, at_seconds: 60, for_seconds: 200}"
    made = cell(down, profile__after_seconds="500")
    found = simulate(made.scenario, with_down(made.policy, 300))

    assert [replicas_at(found, second) for second in (255, 555)] == [12, 12]
    assert replicas_at(found, 580) < 12


def test_what_has_arrived_is_kept_and_what_comes_goes_by_the_new_shares() -> None:
    """Each partition's records are those of its shares before and after the growth."""
    traffic = Traffic(offered_load(QUICK_SPIKE.profile), np.array([0.5, 0.5]))
    traffic.grow(20.0, np.array([0.25, 0.25, 0.5]))
    instants = np.array([10.0, 20.0, 40.0])
    before, at, later = (traffic.count_at(second) for second in instants)

    first, new = traffic.records_of(0, instants), traffic.records_of(2, instants)

    assert first == pytest.approx([0.5 * before, 0.5 * at, 0.5 * at + 0.25 * (later - at)])
    assert new == pytest.approx([0.0, 0.0, 0.5 * (later - at)])
    assert traffic.records_by(instants) == pytest.approx([first[0], 0.5 * at, new[2]])


def test_every_record_waits_or_is_committed_across_a_growth() -> None:
    """Ends sum up to what has arrived, commits never move back, lag is the rest."""
    found = world(cell(GROWTH, partitions="6"), 4)
    committed = np.zeros(12)
    for second in np.arange(19.0, 200.0, 0.5).tolist():
        if second == 20.0:
            found.advance(20.0)
            found.grow(12)
        found.advance(second)
        end, commits = found.backlog.offsets_at(second)
        assert abs(int(end.sum()) - found.traffic.count_at(second)) <= len(end)
        assert (commits >= committed[: len(commits)]).all()
        committed[: len(commits)] = commits
        # What was done since the last commits, a second ago at most, is not committed yet.
        rest = int(end.sum() - commits.sum()) - sum(
            lags[-1] for _, lags in found.backlog.courses(second)
        )
        assert -len(end) <= rest <= 4 * found.pod_rate + len(end)
    assert (committed[6:] > 0).all()


def test_new_partitions_wait_until_a_member_finds_them() -> None:
    """The first member to look finds them after its share of 10 s; then the group rebalances."""
    found = world(cell(GROWTH, partitions="6"), 4)
    found.advance(20.0)
    rebalances = len(found.fleet.rebalances)
    found.grow(12)
    assert set(found.backlog.owners[6:]) == {-1}

    found.advance(21.9)
    assert len(found.fleet.rebalances) == rebalances
    found.advance(23.0)
    assert len(found.fleet.rebalances) == rebalances + 1
    assert -1 not in found.backlog.owners


def test_the_autoscaler_sees_the_new_partitions_and_the_group_is_faster() -> None:
    """KEDA caps at the partitions: 6, and 12 from its next look after the growth on."""
    few = {"partitions": "6", "allow_overscale": "true"}
    without, grown = simulated(**few).measures, simulated(GROWTH, **few).measures

    assert without.max_replicas <= 7 < grown.max_replicas
    assert (grown.drain_seconds or 0) < (without.drain_seconds or 0)
    assert grown.seconds_over_slo < without.seconds_over_slo


def scraping(query: str | None = None) -> Policy:
    """Return prometheus-lag, with another query."""
    found = load_policy("prometheus-lag")
    if query is None:
        return found
    manifest: dict[str, Any] = copy.deepcopy(dict(found.manifest))
    manifest["spec"]["triggers"][0]["metadata"]["query"] = query
    return check_policy(manifest, where=found.where)


def test_a_sample_is_seen_once_it_is_scraped_and_until_the_next_one() -> None:
    """The recorder's reading is half a second old when Prometheus scrapes it."""
    found = world(cell(), 1)
    lag, seen = ScrapedLag(found), []
    for second in (20.0, 22.0):
        found.advance(second)
        lag.sample()
        end, committed = found.offsets()
        seen.append(float(np.sum(end - committed)))

    assert 0 < seen[0] < seen[1]
    plain = SampledLag(lambda value: (value, True))
    found_at = [lag.value_at(second, plain) for second in (20, 21, 22, 23)]
    assert found_at == [0, seen[0], seen[0], seen[1]]


LAG = 'sum(kafka_consumergroup_lag{consumergroup="g", topic="t"})'
ENDS = 'sum(rate(kafka_topic_partition_current_offset{topic="t"}[30s]))'


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"{ENDS} + {LAG} / 10", LoadQuery(30, 10.0)),
        (f"{ENDS}+{LAG}/2.5", LoadQuery(30, 2.5)),
        (f"{ENDS} + {LAG} / 0", None),
        (f"{ENDS} + up / 10", None),
        (ENDS, None),
        (LAG, None),
    ],
)
def test_a_query_of_rate_and_backlog_is_read(query: str, expected: LoadQuery | None) -> None:
    """Nothing else is taken for one."""
    assert parse_load_query(query) == expected


def test_the_rate_of_a_query_is_that_of_what_arrives() -> None:
    """600/s before the spike at 15 s, and more soon after; lag / seconds comes on top."""
    found = world(cell(), 1)
    lag = ScrapedLag(found)
    for second in range(0, 31, 2):
        found.advance(float(second))
        lag.sample()

    def rate(second: int) -> float:
        return lag.value_at(second, SampledLag(lambda value: (value, True), math.inf, 10))

    assert rate(14) == pytest.approx(600, abs=2)
    assert 600 < rate(18) < rate(26) == pytest.approx(6000, abs=20)


def test_a_longer_scrape_interval_reacts_later() -> None:
    """With a scrape every half a minute the policy sees some spikes a sync later, none earlier."""
    slow, quick = (
        [
            simulate(QUICK_SPIKE, scraping(), environment=around, draw=draw).measures
            for draw in range(3)
        ]
        for around in (SimulatedEnvironment(scrape_seconds=seconds) for seconds in (30, 2))
    )
    later = [
        (one.reaction_seconds or 0) - (other.reaction_seconds or 99)
        for one, other in zip(slow, quick, strict=True)
    ]

    assert min(later) >= 0
    assert max(later) > 15


@pytest.mark.parametrize("query", ["up", 'avg(kafka_consumergroup_lag{consumergroup="enrich"})'])
def test_a_query_of_something_else_is_rejected_by_name(query: str) -> None:
    """Nothing in the simulated world says what it would give."""
    with pytest.raises(WrongInput) as caught:
        simulate(QUICK_SPIKE, scraping(query))

    assert (caught.value.field, caught.value.value) == ("spec.triggers[0].metadata.query", query)


def test_the_embedded_bench_scrapes_as_often_as_the_simulator_says() -> None:
    """The interval stands in the Deployment's configuration and in the simulator's assumptions."""
    text = (PROJECT_ROOT / "k8s/base/prometheus/deployment.yaml").read_text(encoding="utf-8")
    script = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]["args"][0]
    config = yaml.safe_load(script.partition("<<END\n")[2].partition("END\n")[0])

    assert config["global"]["scrape_interval"] == f"{SimulatedEnvironment().scrape_seconds:g}s"
