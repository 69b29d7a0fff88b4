"""Pods that start, take partitions over and leave."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.scenario.actions import Balancer
from lagbench.core.scenario.offered_load import OfferedLoad, Segment
from lagbench.core.scenario.stream_start import StartDelay
from lagbench.core.simulation.backlog import NOBODY, Backlog, Traffic
from lagbench.core.simulation.simulated_world import Fleet, SimulatedEnvironment, assign_stickily

TIMES = SimulatedEnvironment(handover_seconds=1.0)


def fleet_of(replicas: int, *, partitions: int = 4, balancer: Balancer = "consumer") -> Fleet:
    """Return a fleet over an evenly loaded topic."""
    load = OfferedLoad((Segment(0.0, 100.0),), 100.0)
    traffic = Traffic(load, np.full(partitions, 1 / partitions))
    backlog = Backlog(traffic, pod_rate=100.0, commit_seconds=1.0, starts_at=0.0)
    random = np.random.default_rng(1)
    return Fleet(
        backlog,
        TIMES,
        random,
        balancer=balancer,
        replicas=replicas,
        starts_at=0.0,
        start=StartDelay(2.0, seed=1, spread=0.0),
    )


def test_a_new_pod_works_after_start_up_and_handover() -> None:
    """Wanted at 10 s, Ready at 12 s, and with partitions from 13 s on."""
    fleet = fleet_of(1)

    fleet.set_replicas(2, 10.0, "hpa")
    fleet.advance(11.0)
    starting = (fleet.spec_replicas, fleet.status_replicas, fleet.ready_count)
    fleet.advance(13.5)

    assert starting == (2, 2, 1)
    assert fleet.ready_count == 2
    assert fleet.pods[1].ready_at == pytest.approx(12.0)
    assert fleet.pods[1].assigned_at == pytest.approx(13.0)


def test_only_partitions_that_move_pause_unless_the_balancer_is_eager() -> None:
    """A second pod stops two of four partitions for the handover; with range all four."""
    paused = {}
    balancers: tuple[Balancer, ...] = ("cooperative-sticky", "range")
    for balancer in balancers:
        fleet = fleet_of(1, balancer=balancer)
        fleet.set_replicas(2, 10.0, "hpa")
        fleet.advance(12.5)
        paused[balancer] = fleet._backlog.owners.count(NOBODY)

    assert paused == {"cooperative-sticky": 2, "range": 4}


def test_pods_that_are_not_ready_leave_first_then_the_youngest() -> None:
    """Of two old pods and one in start-up, going to one keeps the oldest."""
    fleet = fleet_of(2)
    fleet.set_replicas(3, 10.0, "hpa")

    fleet.set_replicas(2, 10.5, "hpa")
    after_first = [pod.number for pod in fleet.alive]
    fleet.set_replicas(1, 11.0, "hpa")
    fleet.advance(20.0)

    assert after_first == [0, 1]
    assert [pod.number for pod in fleet.alive] == [0]
    assert fleet._backlog.owners == [0, 0, 0, 0]


def test_a_pod_beyond_the_partitions_gets_none() -> None:
    """The fifth pod on four partitions is Ready and never assigned."""
    fleet = fleet_of(4)

    fleet.set_replicas(5, 10.0, "hpa")
    fleet.advance(20.0)

    assert fleet.ready_count == 5
    assert fleet.pods[4].assigned_at is None


def test_at_zero_pods_nobody_owns_anything() -> None:
    """Scaled to zero, every partition is without an owner."""
    fleet = fleet_of(2)

    fleet.set_replicas(0, 10.0, "keda")
    fleet.advance(20.0)

    assert fleet._backlog.owners == [-1, -1, -1, -1]
    assert [(step.before, step.after) for step in fleet.steps] == [(2, 0)]


@given(
    owners=st.lists(st.integers(-1, 6), min_size=1, max_size=12),
    members=st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True),
)
def test_assignment_is_even_complete_and_moves_no_more_than_it_must(
    owners: list[int], members: list[int]
) -> None:
    """Counts differ by one at most, and a member loses only what is above its share."""
    assigned = assign_stickily(owners, members)

    counts = sorted(assigned.count(member) for member in members)
    assert sum(counts) == len(owners)
    assert counts[-1] - counts[0] <= 1
    base, extra = divmod(len(owners), len(members))
    held = sorted((owners.count(member) for member in members), reverse=True)
    quotas = [base + (place < extra) for place in range(len(members))]
    kept = sum(min(have, quota) for have, quota in zip(held, quotas, strict=True))
    stayed = sum(a == b for a, b in zip(assigned, owners, strict=True))
    assert stayed == kept
