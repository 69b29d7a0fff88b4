"""The backlog's straight lines against a small-step simulation and against arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagbench.core.scenario.actions import Balancer
from lagbench.core.scenario.message_costs import DownstreamPace
from lagbench.core.scenario.offered_load import OfferedLoad, Segment
from lagbench.core.scenario.stream_start import StartDelay
from lagbench.core.simulation.assignors import (
    ASSIGNORS,
    Assign,
    assign_cooperatively,
    assign_stickily,
)
from lagbench.core.simulation.backlog import NOBODY, Backlog, Traffic, share_fairly
from lagbench.core.simulation.simulated_world import Fleet, Handover, SimulatedEnvironment
from lagbench.core.simulation.simulation_measures import TimeLag, seconds_over, time_lag_seconds


def backlog_of(
    rates: list[float],
    *,
    partitions: int = 2,
    pod_rate: float = 100.0,
    seconds: float = 10.0,
    slow: tuple[tuple[float, float, float], ...] = (),
) -> Backlog:
    """Return a backlog under rates that last ``seconds`` each, spread evenly."""
    parts = tuple(Segment(index * seconds, rate) for index, rate in enumerate(rates))
    traffic = Traffic(OfferedLoad(parts, len(rates) * seconds), np.full(partitions, 1 / partitions))
    pace = DownstreamPace.of_rows(slow)
    return Backlog(traffic, pod_rate=pod_rate, commit_seconds=1.0, starts_at=-5.0, pace=pace)


def fair_service(arrivals: np.ndarray, lag: np.ndarray, owner: list[int], pods: int) -> np.ndarray:
    """Return the rates of all partitions with pods of 100/s."""
    served = [0.0] * len(arrivals)
    for number in range(pods):
        mine = [partition for partition, pod in enumerate(owner) if pod == number]
        demand = {p: math.inf if lag[p] > 0 else float(arrivals[p]) for p in mine}
        for partition, rate in share_fairly(demand, 100.0).items():
            served[partition] = rate
    return np.array(served)


def lags_at(backlog: Backlog, second: float) -> list[float]:
    """Return the lag of each partition."""
    return [float(np.interp(second, *course)) for course in backlog.courses(second)]


def own(backlog: Backlog, second: float, owner: list[int], *, phase: float = 0.0) -> None:
    """Give the partitions out."""
    backlog.set_owners(second, owner, dict.fromkeys(owner, phase))


def lag_at(backlog: Backlog, second: float) -> float:
    """Return the records that wait in all."""
    return float(sum(lags[-1] for _, lags in backlog.courses(second)))


def test_a_slow_downstream_takes_the_pods_rate_for_its_time() -> None:
    """At 60/s a pod of 100/s keeps up; slow by 4 from 12 to 20 it falls behind by 280."""
    backlog = backlog_of([60, 60, 60], slow=((12, 20, 4),))
    own(backlog, -5.0, [0, 0])

    seen = []
    for second in (12.0, 16.0, 20.0, 23.5, 27.0):
        backlog.advance(second)
        seen.append((lag_at(backlog, second), backlog.served_per_second))

    assert [lag for lag, _ in seen] == pytest.approx([0, 140, 280, 140, 0])
    assert [rate for _, rate in seen] == pytest.approx([25, 25, 100, 100, 60])


def test_lag_grows_by_what_a_pod_cannot_do_and_drains_at_what_it_can_spare() -> None:
    """150/s at a pod of 100/s leave 500 after 10 s; at 50/s they are gone 10 s later."""
    backlog = backlog_of([150, 50, 50])
    own(backlog, -5.0, [0, 0])

    backlog.advance(10.0)
    at_peak = lag_at(backlog, 10.0)
    backlog.advance(15.0)
    half_way = lag_at(backlog, 15.0)
    backlog.advance(25.0)

    assert at_peak == pytest.approx(500)
    assert half_way == pytest.approx(250)
    assert lag_at(backlog, 25.0) == 0


def test_a_partition_without_a_pod_keeps_all_that_arrives() -> None:
    """During a handover nothing is done: 50/s over 2 s are 100 records."""
    backlog = backlog_of([100, 100])
    own(backlog, -5.0, [0, 1])

    own(backlog, 4.0, [0, -1])
    backlog.advance(6.0)

    assert lags_at(backlog, 6.0) == pytest.approx([0, 100])


@pytest.mark.parametrize(
    ("rates", "phase", "second", "end", "committed"),
    [
        ([100], 0.0, 3.7, 185, 150),  # what was done at 3 s
        ([100, 40], 0.5, 10.4, 508, 475),  # at 9.5 s, when the rate was another
    ],
)
def test_committed_offsets_stand_still_between_two_commits(
    rates: list[float], phase: float, second: float, end: int, committed: int
) -> None:
    """With commits at each whole second and the phase."""
    backlog = backlog_of(rates)
    own(backlog, -5.0, [0, 0], phase=phase)

    assert [found.tolist() for found in backlog.offsets_at(second)] == [[end] * 2, [committed] * 2]


def test_who_gives_a_partition_up_commits_it() -> None:
    """After a revoke at 3.7 s the committed offset is what was done by then."""
    backlog = backlog_of([100])
    own(backlog, -5.0, [0, 0])

    own(backlog, 3.7, [-1, 0])
    _, committed = backlog.offsets_at(3.8)

    assert committed.tolist() == [185, 150]


@settings(max_examples=60)
@given(
    rates=st.lists(st.integers(0, 400), min_size=1, max_size=4),
    weights=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    owner=st.lists(st.integers(-1, 1), min_size=3, max_size=3),
)
def test_the_closed_form_is_the_limit_of_small_steps(
    rates: list[int], weights: list[int], owner: list[int]
) -> None:
    """Lag per partition agrees with 2,000 small steps to what one step can hold."""
    shares = np.array(weights) / sum(weights)
    parts = tuple(Segment(index * 5.0, float(rate)) for index, rate in enumerate(rates))
    traffic = Traffic(OfferedLoad(parts, len(rates) * 5.0), shares)
    numbers = sorted(set(owner) - {-1})
    owners = [numbers.index(item) if item >= 0 else -1 for item in owner]
    backlog = Backlog(traffic, pod_rate=100.0, commit_seconds=1.0, starts_at=0.0)
    own(backlog, 0.0, owners)
    until, steps = len(rates) * 5.0 + 3.0, 2000

    backlog.advance(until)

    lag, width = np.zeros(3), until / steps
    for step in range(steps):
        second = (step + 0.5) * width
        index = traffic.segment_at(second)
        arrivals = shares * traffic.rates[index]
        done = fair_service(arrivals, lag, owners, len(numbers))
        lag = np.maximum(lag + (arrivals - done) * width, 0.0)
    tolerance = 3 * 400 * width * 3
    assert lags_at(backlog, until) == pytest.approx(lag, abs=tolerance)


@given(
    arrivals=st.lists(st.floats(0, 300), min_size=1, max_size=8),
    lagging=st.integers(0, 255),
    pods=st.integers(1, 4),
)
def test_a_pod_does_all_it_can_and_no_more(arrivals: list[float], lagging: int, pods: int) -> None:
    """Each pod works at its rate or at all that its partitions need, whichever is less."""
    count = len(arrivals)
    rate = np.array(arrivals)
    lag = np.array([float(lagging >> index & 1) for index in range(count)])
    owner = np.array([index % pods for index in range(count)])

    served = fair_service(rate, lag, owner.tolist(), pods)

    for pod in range(pods):
        mine = owner == pod
        wanted = np.inf if (lag[mine] > 0).any() else rate[mine].sum()
        assert served[mine].sum() == pytest.approx(min(wanted, 100.0) if mine.any() else 0.0)
    assert (served[lag == 0] <= rate[lag == 0] + 1e-9).all()


def waited(until: float, *, planned_seconds: float = 20.0) -> TimeLag:
    """Return the percentiles of 20 s at 200/s into a pod of 100/s, watched until an instant.

    The message of second t is done at 2t, so it waits t seconds: half of 20 s at most 10 s.
    """
    traffic = Traffic(OfferedLoad((Segment(0.0, 200.0),), 20.0), np.ones(1))
    backlog = Backlog(traffic, pod_rate=100.0, commit_seconds=1.0, starts_at=0.0)
    backlog.set_owners(0.0, [0], {0: 0.0})
    instants, lags = backlog.courses(until)[0]
    return time_lag_seconds(traffic, instants, lags[:, None], planned_seconds)


@pytest.mark.parametrize(
    ("until", "planned_seconds", "p50", "p99"),
    [
        (60.0, 20.0, 10.0, 19.8),
        (60.0, 10.0, 5.0, 9.9),  # of the planned window alone
        (39.9, 20.0, 10.0, 19.8),  # all but the last quarter of a percent are done
        (39.0, 20.0, 10.0, None),  # more than 1 % are not
    ],
)
def test_a_message_waits_for_those_before_it(
    until: float, planned_seconds: float, p50: float, p99: float | None
) -> None:
    """The wait grows by a second a second: half wait up to 10 s, one in a hundred above 19.8 s."""
    found = waited(until, planned_seconds=planned_seconds)

    assert found == pytest.approx((p50, p99), abs=0.02)
    nothing = Traffic(OfferedLoad((Segment(0.0, 0.0),), 10.0), np.ones(1))
    none = time_lag_seconds(nothing, np.array([0.0, 10.0]), np.zeros((2, 1)), 10.0)
    assert none == (None, None)


def test_partitions_count_by_their_messages() -> None:
    """A slow partition with 0.5 % of the messages is above the percentile, one with 2 % is not."""
    instants = np.array([0.0, 10.0, 20.0])
    traffic = Traffic(OfferedLoad((Segment(0.0, 1000.0),), 10.0), np.array([0.995, 0.005]))
    slow = np.array([[0.0, 0.0], [0.0, 50.0], [0.0, 0.0]])
    assert time_lag_seconds(traffic, instants, slow, 10.0).p99 == 0.0

    traffic = Traffic(OfferedLoad((Segment(0.0, 1000.0),), 10.0), np.array([0.98, 0.02]))
    slow = np.array([[0.0, 0.0], [0.0, 200.0], [0.0, 0.0]])
    # Nothing of it is done before 10 s, then 20/s: the message of second t is done at 10 + t.
    assert time_lag_seconds(traffic, instants, slow, 10.0).p99 == pytest.approx(10.0)


def test_the_oldest_message_decides() -> None:
    """At 200/s into a pod of 100/s the oldest message is t/2 old: above 5 s from t = 10 s on.

    From 20 s on nothing arrives; 2,000 records at 100/s last until 40 s. The message in work at t
    arrived at t/2, so it is older than 5 s all the time from 10 s to 40 s.
    """
    traffic = Traffic(OfferedLoad((Segment(0.0, 200.0),), 20.0), np.ones(1))
    backlog = Backlog(traffic, pod_rate=100.0, commit_seconds=1.0, starts_at=0.0)
    backlog.set_owners(0.0, [0], {0: 0.0})
    instants, lags = backlog.courses(60.0)[0]

    assert seconds_over(traffic, instants, lags[:, None], 5.0) == pytest.approx(30.0)
    assert seconds_over(traffic, instants, lags[:, None], 21.0) == pytest.approx(0.0)


def test_partitions_that_are_late_at_the_same_time_count_once() -> None:
    """Two partitions late from 1 s and from 2 s on until the end make one period."""
    traffic = Traffic(OfferedLoad((Segment(0.0, 20.0),), 10.0), np.array([0.5, 0.5]))
    instants = np.array([0.0, 1.0, 10.0])
    lags = np.array([[0.0, 0.0], [10.0, 0.0], [100.0, 90.0]])

    seconds = seconds_over(traffic, instants, lags, 0.5)

    # Partition 0 keeps all of its 10/s: more than 5 records (0.5 s) from 0.5 s on.
    assert seconds == pytest.approx(9.5)


AT_ONCE = (0.0, 0.0)
SECOND = Handover(AT_ONCE, (1.0, 1.0), (1.0, 1.0), AT_ONCE, (1.0, 1.0))
TIMES = SimulatedEnvironment(handovers=dict.fromkeys(("eager", "cooperative", "consumer"), SECOND))


def fleet_of(
    replicas: int,
    *,
    partitions: int = 4,
    balancer: Balancer = "consumer",
    times: SimulatedEnvironment = TIMES,
    seed: int = 1,
) -> Fleet:
    """Return a fleet over an evenly loaded topic."""
    load = OfferedLoad((Segment(0.0, 100.0),), 100.0)
    traffic = Traffic(load, np.full(partitions, 1 / partitions))
    backlog = Backlog(traffic, pod_rate=100.0, commit_seconds=1.0, starts_at=0.0)
    random = np.random.default_rng(seed)
    return Fleet(
        backlog,
        times,
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


def test_pods_beyond_the_partitions_own_none_and_none_own_nothing() -> None:
    """The fifth pod on four partitions is Ready and never assigned; at zero nobody owns any."""
    five, none = fleet_of(4), fleet_of(2)

    five.set_replicas(5, 10.0, "hpa")
    none.set_replicas(0, 10.0, "keda")
    for fleet in (five, none):
        fleet.advance(20.0)

    assert (five.ready_count, five.pods[4].assigned_at) == (5, None)
    assert none._backlog.owners == [-1, -1, -1, -1]
    assert [(step.before, step.after) for step in none.steps] == [(2, 0)]


@pytest.mark.parametrize(
    ("balancer", "assigned"),
    [
        ("range", [9, 9, 9, 0, 0, 1, 1]),
        ("roundrobin", [9, 0, 1, 9, 0, 1, 9]),
        ("cooperative-sticky", [9, 0, 0, 9, 1, 1, 1]),  # the lowest of each moves
        ("consumer", [0, 0, 9, 1, 1, 1, 9]),  # each keeps its first
    ],
)
def test_a_third_member_gets_what_the_assignor_gives_it(
    balancer: Balancer, assigned: list[int]
) -> None:
    """Member 9 joins 0 and 1, of which one has three partitions and the other has four."""
    owners = [0, 0, 0, 1, 1, 1, 1]
    found = ASSIGNORS[balancer](owners, [9, 0, 1])
    assert found == assigned


@pytest.mark.parametrize("assign", [assign_stickily, assign_cooperatively])
@given(
    owners=st.lists(st.integers(-1, 6), min_size=1, max_size=12),
    members=st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True),
)
def test_assignment_is_even_complete_and_moves_no_more_than_it_must(
    assign: Assign, owners: list[int], members: list[int]
) -> None:
    """Counts differ by one at most, and a member loses only what is above its share."""
    assigned = assign(owners, members)

    counts = sorted(assigned.count(member) for member in members)
    assert sum(counts) == len(owners)
    assert counts[-1] - counts[0] <= 1
    base, extra = divmod(len(owners), len(members))
    held = sorted((owners.count(member) for member in members), reverse=True)
    quotas = [base + (place < extra) for place in range(len(members))]
    kept = sum(min(have, quota) for have, quota in zip(held, quotas, strict=True))
    stayed = sum(a == b for a, b in zip(assigned, owners, strict=True))
    assert stayed == kept


def test_a_new_pod_of_a_cooperative_group_gets_partitions_in_a_second_rebalance() -> None:
    """From Ready to the first work it takes thrice as long as with range, as with KIP-848."""
    found = {}
    balancers: tuple[Balancer, ...] = ("range", "cooperative-sticky", "consumer")
    for balancer in balancers:
        takes = [handover_of(balancer, seed) for seed in range(20)]
        found[balancer] = sum(takes) / len(takes)

    assert found["range"] == pytest.approx(0.33, abs=0.1)
    assert found["cooperative-sticky"] == pytest.approx(0.95, abs=0.15)
    assert found["consumer"] == pytest.approx(1.0, abs=0.25)


def handover_of(balancer: Balancer, seed: int) -> float:
    """Return the seconds from Ready to the first work of one pod more."""
    fleet = fleet_of(1, balancer=balancer, times=SimulatedEnvironment(), seed=seed)
    fleet.set_replicas(2, 10.0, "hpa")
    fleet.advance(20.0)
    pod = fleet.pods[1]
    assert pod.assigned_at is not None
    assert pod.ready_at is not None
    return pod.assigned_at - pod.ready_at
