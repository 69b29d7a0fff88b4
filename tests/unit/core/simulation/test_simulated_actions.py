"""Actions in the simulated world."""

from __future__ import annotations

from functools import cache

import numpy as np

from lagbench.catalog.catalog import Cell, checked_cell
from lagbench.core.policy.checked_policy import CheckedPolicy, check_policy
from lagbench.core.simulation.simulate import is_simulated, simulate
from lagbench.core.simulation.simulation_measures import Simulation


def cell(actions: str) -> Cell:
    """Return quick_spike with actions."""
    return checked_cell("quick_spike", overrides={"actions": f"[{actions}]"})


@cache
def simulated(actions: str = "") -> Simulation:
    """Return one simulation of it."""
    made = cell(actions)
    swapped = {number: one.policy for number, one in made.swapped.items()}
    return simulate(made.scenario, made.policy, swapped=swapped)


def replicas_at(found: Simulation, second: float) -> int:
    """Return the wanted replicas at an instant."""
    place = int(np.searchsorted(found.timeline.second, second, side="right")) - 1
    return int(found.timeline.spec_replicas[place])


def test_without_an_autoscaler_nothing_scales() -> None:
    """From its begin until its end the replicas stay, and the lag grows meanwhile."""
    down = simulated("{kind: autoscaler_down, at_seconds: 10, for_seconds: 40}")

    assert replicas_at(simulated(), 49) > 2
    assert replicas_at(down, 49) == 2
    assert down.measures.peak_lag_records > simulated().measures.peak_lag_records
    assert replicas_at(down, 80) == 12


def test_killed_pods_leave_their_partitions_waiting() -> None:
    """The lag is higher for a session, and the replicas are not changed."""
    killed = simulated("{kind: kill_pod, at_seconds: 60, pods: 6}")

    assert killed.measures.peak_lag_records > simulated().measures.peak_lag_records
    assert killed.measures.max_replicas == simulated().measures.max_replicas
    assert killed.measures.drain_seconds is not None


def peak_after_a_kill(balancer: str) -> float:
    """Return the peak lag of two pods of which one is killed, without any scaling."""
    down = "{kind: autoscaler_down, at_seconds: 1, for_seconds: 100}"
    kill = "{kind: kill_pod, at_seconds: 2, pods: 1}"
    overrides = {"actions": f"[{down}, {kill}]", "consumer.balancer": balancer}
    made = checked_cell("quick_spike", overrides=overrides)
    return simulate(made.scenario, made.policy).measures.peak_lag_records


def test_a_killed_member_of_kip_848_stays_for_the_brokers_session() -> None:
    """Its partitions wait for 45 s instead of the 10 s of the classic protocols."""
    assert peak_after_a_kill("consumer") > peak_after_a_kill("cooperative-sticky")


def test_a_swap_follows_the_new_policy() -> None:
    """persistent-lag waits two minutes before it adds a pod: a spike of 60 s adds none."""
    swapped = simulated("{kind: swap_policy, at_seconds: 5, policy: persistent-lag}")

    assert replicas_at(simulated(), 60) > 2
    assert replicas_at(swapped, 60) == 2


def test_the_rest_is_left_out() -> None:
    """A kind without effect on replicas or capacity here, and a state that is not known before."""
    actions = cell(
        "{kind: pause_pod, at_seconds: 1, for_seconds: 1}, {kind: kill_pod, at: lag_drained}"
    ).scenario.actions

    assert [is_simulated(action) for action in actions] == [False, False]


def with_down(policy: CheckedPolicy, window: int, **rule: object) -> CheckedPolicy:
    """Return the policy with another way down."""
    down = {"stabilizationWindowSeconds": window, **({"policies": [rule]} if rule else {})}
    behavior = {"scaleDown": down, "scaleUp": {"stabilizationWindowSeconds": 0}}
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": behavior}}
    manifest = {**policy.manifest, "spec": {**policy.manifest["spec"], "advanced": advanced}}
    return check_policy(manifest, where="changed")


def with_a_long_end(actions: str) -> Cell:
    """Return quick_spike with 500 s after the spike."""
    overrides = {"actions": f"[{actions}]", "profile.after_seconds": "500"}
    return checked_cell("quick_spike", overrides=overrides)


def test_a_swap_keeps_the_memory_of_the_hpa() -> None:
    """A new window of 300 s sees no more than before the swap: it holds no pod that was to go."""
    made = with_a_long_end("{kind: swap_policy, at_seconds: 230, policy: lag-quick}")
    slowly = with_down(made.policy, 0, type="Pods", value=1, periodSeconds=15)
    swapped = {0: with_down(made.policy, 300)}

    found = simulate(made.scenario, slowly, swapped=swapped)

    assert replicas_at(found, 229) > 2
    assert replicas_at(found, 250) == 2


def test_an_autoscaler_that_comes_back_remembers_nothing() -> None:
    """Its window begins anew: 12 replicas stay for 300 s from its return at second 260."""
    down = "{kind: autoscaler_down, at_seconds: 60, for_seconds: 200}"
    made = with_a_long_end(down)

    found = simulate(made.scenario, with_down(made.policy, 300))

    assert replicas_at(found, 255) == 12
    assert replicas_at(found, 555) == 12
    assert replicas_at(found, 580) < 12
