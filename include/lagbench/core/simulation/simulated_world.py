"""Simulate what an autoscaler acts on: pods and their group, and the assumptions about them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Literal

import numpy as np

from lagbench.core.hpa.hpa_sync import HpaSettings
from lagbench.core.keda.loop.scalers import TargetView
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.measures.model import Ints, Reals
from lagbench.core.scenario.actions import (
    Balancer,
    RebalanceProtocol,
    downstream_pace,
    rebalance_protocol,
)
from lagbench.core.scenario.event_stream import partition_shares
from lagbench.core.scenario.offered_load import OfferedLoad, offered_load
from lagbench.core.scenario.profiles import Profile
from lagbench.core.scenario.scenario import Keys, Scenario
from lagbench.core.scenario.stream_start import START_SPREAD, StartDelay, mean_start_seconds
from lagbench.core.scenario.stream_tail import Tail, tail_of, topic_shares
from lagbench.core.simulation.assignors import ASSIGNORS
from lagbench.core.simulation.backlog import NOBODY, Backlog, Traffic


@dataclass(frozen=True, slots=True)
class Handover:
    """Seconds of a rebalance, each drawn evenly from (least, most)."""

    revoked: tuple[float, float]
    """From a join or a leave until members stop what they lose."""
    joined: tuple[float, float]
    """From a join until the new owners' first work."""
    left: tuple[float, float]
    """Likewise, from a leave."""
    held_up: tuple[float, float]
    """From a join during a handover until that can end."""
    late: tuple[float, float]
    """From then until the first work of the pods that joined in the meantime."""


HANDOVERS: Mapping[RebalanceProtocol, Handover] = {
    # Members learn of a rebalance from their next heartbeat, 0.2 s apart, and it takes one round.
    "eager": Handover((0.0, 0.2), (0.15, 0.5), (0.15, 0.5), (0.0, 0.0), (0.15, 0.5)),
    # A first round takes partitions away, a second one gives them to the new pods (measured).
    "cooperative": Handover((0.1, 0.3), (0.6, 1.3), (0.1, 0.56), (0.7, 1.3), (0.1, 0.5)),
    # The old owner learns from its next heartbeat, 1 s apart on the bench, and so does the new one.
    "consumer": Handover((0.0, 1.0), (0.3, 1.7), (0.0, 1.0), (0.0, 0.0), (0.3, 1.7)),
}
"""Of kept runs on the embedded bench, 5 % to 95 %; of KIP-848 by its heartbeats alone."""


@dataclass(frozen=True, slots=True)
class SimulatedEnvironment:
    """Times of pods, group and clocks; the defaults are those measured on the embedded bench."""

    hpa_sync_seconds: float = 15.04
    """A processed HPA is due again 15 s later; with the work of a sync 15.04 s (kept runs)."""
    hpa_scale_seconds: float = 0.11
    """A sync that changes the replicas takes this much longer (kept runs: 15.15 s)."""
    hpa_sync_at_seconds: float | None = None
    """An instant of one of the HPA's syncs, from the stream's start; None: drawn by the seed."""
    start_up_seconds: float | None = None
    """From a pod's creation to Ready, on average; None: the scenario's ``start_seconds`` and
    ``process_seconds``. 10 to 20 s are usual on a cluster."""
    process_seconds: float = 0.1
    """A process needs this beyond the scenario's ``start_seconds`` until it joins (measured)."""
    start_up_spread: float = START_SPREAD
    """Each pod's start-up is drawn from the mean +- this share of it."""
    handovers: Mapping[RebalanceProtocol, Handover] = field(default_factory=lambda: HANDOVERS)
    """The times of a rebalance, by the group's protocol."""
    metadata_seconds: float = 10.0
    """The time between two looks of a consumer at the topic's partitions, as its client is set."""
    stop_seconds: float = 0.05
    """From the order to stop a pod until its end (kept runs); paid, and no work is done in it."""
    status_seconds: float = 0.2
    """Until status.replicas follows spec.replicas."""
    commit_seconds: float = 1.0
    """The consumers' commit interval: at rest the lag is what arrived since the last commit."""
    scrape_seconds: float = 2.0
    """Prometheus' scrape interval on the embedded bench (k8s/base/prometheus)."""
    scrape_delay_seconds: float = 0.5
    """From the recorder's reading of the lag to the scrape that sees it."""
    reading_seconds: float = 1.0
    """The time between two of the recorder's readings, of which peak lag and drain are measured."""
    lead_seconds: float = 120.0
    """The time for which the policy is in force before the stream starts, without traffic."""
    tail_seconds: float = 900.0
    """The time that is watched after the planned window: the same for every policy, as is the base
    load that continues in it. (A run ends it once the replicas are settled.)
    """
    cpu_idle_millicores: float = 5.0
    cpu_busy_millicores: float = 45.0
    """A pod at its full rate, without the work of ``consumer.cpu_ms``."""
    starts_at_seconds: int = 1_767_571_200
    """Unix time of the stream's start (2026-01-05 00:00 UTC, a Monday), for cron triggers."""
    hpa: HpaSettings = HpaSettings()  # noqa: RUF009 - frozen


_Event = Literal["status", "ready", "revoke", "resume", "look"]


@dataclass(slots=True)
class SimulatedPod:
    """One pod's life; instants are seconds, None until it comes to that."""

    number: int
    created_at: float
    commit_phase: float
    member_rank: float
    """Its place among the members by their ids, which are random."""
    ready_at: float | None = None
    assigned_at: float | None = None
    stopped_at: float | None = None


@dataclass(frozen=True, slots=True)
class ReplicaStep:
    """The wanted replicas changed."""

    at: float
    before: int
    after: int
    by: Literal["keda", "hpa"]


class Fleet:
    """Follows the wanted replicas and gives the partitions of the backlog to Ready pods."""

    def __init__(
        self,
        backlog: Backlog,
        environment: SimulatedEnvironment,
        random: np.random.Generator,
        *,
        balancer: Balancer,
        replicas: int,
        starts_at: float,
        start: StartDelay,
        process_seconds: float = 0.0,
    ) -> None:
        """Begin with ``replicas`` pods that are Ready and have their partitions."""
        self._backlog, self._environment, self._random = backlog, environment, random
        self._assign = ASSIGNORS[balancer]
        protocol = rebalance_protocol(balancer) or "eager"
        self._is_eager, self._handover = protocol == "eager", environment.handovers[protocol]
        self._start, self._process_seconds = start, process_seconds
        self._events: list[tuple[float, int, _Event, int]] = []
        self._order = 0
        self._version = 0
        self._is_handing_over = self._has_waiting = False
        self._ends_at = -inf
        self._target: list[int] = [NOBODY] * len(backlog.owners)
        self._working = self._target
        self.pods: list[SimulatedPod] = []
        self.steps: list[ReplicaStep] = []
        self.rebalances: list[tuple[float, float]] = []
        """Start and end of each handover, in their order."""
        self._initial_replicas = replicas
        self.spec_replicas = self.status_replicas = replicas
        for _ in range(replicas):
            pod = self._create(starts_at)
            pod.ready_at = starts_at
        self._alive = list(self.pods)
        self.ready_count = replicas
        for count in range(1, replicas + 1):  # they join one after the other
            self._target = self._assigned(self.pods[:count])
        self._hand_out(starts_at, self._target)

    @property
    def next_at(self) -> float:
        """Return when something happens next by itself."""
        return self._events[0][0] if self._events else inf

    @property
    def alive(self) -> list[SimulatedPod]:
        """Return the pods that are not stopped, oldest first."""
        return self._alive

    def replicas_at(self, second: float) -> int:
        """Return the wanted replicas at an instant of the past."""
        past = [step.after for step in self.steps if step.at <= second]
        return past[-1] if past else self._initial_replicas

    def set_replicas(self, replicas: int, second: float, by: Literal["keda", "hpa"]) -> None:
        """Want ``replicas`` pods from now on."""
        if replicas == self.spec_replicas:
            return
        self.steps.append(ReplicaStep(second, self.spec_replicas, replicas, by))
        self.spec_replicas = replicas
        self._plan(second + self._environment.status_seconds, "status", replicas)
        while len(self._alive) < replicas:
            pod = self._create(second)
            self._alive.append(pod)
            takes = self._start.of_pod(pod.number) + self._process_seconds
            self._plan(second + takes, "ready", pod.number)
        if len(self._alive) > replicas:
            self._stop(len(self._alive) - replicas, second)

    def kill(self, numbers: Sequence[int], second: float, *, for_seconds: float) -> None:
        """Let the partitions of these pods wait for ``for_seconds``; the pods start again."""
        killed = set(numbers)
        kept = [NOBODY if owner in killed else owner for owner in self._working]
        self._give(second, kept)
        if not self._is_handing_over:
            self._version += 1
            self.rebalances.append((second, second + for_seconds))
            self._plan(second + for_seconds, "resume", self._version)

    def grow(self, second: float) -> None:
        """Take in partitions that the backlog has got; a member finds them at its next look."""
        more = [NOBODY] * (len(self._backlog.owners) - len(self._working))
        self._target, self._working = [*self._target, *more], [*self._working, *more]
        looks_in = self._environment.metadata_seconds / (self.ready_count + 1)
        self._plan(second + looks_in, "look", 0)

    def advance(self, second: float) -> None:
        """Let everything happen that is due up to ``second``."""
        while self._events and self._events[0][0] <= second:
            at, _, event, value = heapq.heappop(self._events)
            if event == "status":
                self.status_replicas = value
            elif event == "ready":
                pod = self.pods[value]
                if pod.stopped_at is None:
                    pod.ready_at = at
                    self.ready_count += 1
                    self._join(at)
            elif event == "look":
                self._join(at)
            elif value != self._version:
                continue
            elif event == "revoke":
                self._revoke(at)
            elif at < self._ends_at:
                self._plan(self._ends_at, "resume", value)
            else:
                self._hand_out(at, self._target)
                self._is_handing_over = False
                self.rebalances[-1] = (self.rebalances[-1][0], at)
                if self._has_waiting:
                    self._rebalance(at, self._handover.late)

    def _plan(self, at: float, event: _Event, value: int) -> None:
        self._order += 1
        heapq.heappush(self._events, (at, self._order, event, value))

    def _create(self, second: float) -> SimulatedPod:
        phase = float(self._random.uniform(0.0, self._environment.commit_seconds))
        pod = SimulatedPod(len(self.pods), second, phase, float(self._random.uniform()))
        self.pods.append(pod)
        return pod

    def _stop(self, count: int, second: float) -> None:
        """Stop pods as a ReplicaSet does: those that are not Ready first, then the youngest."""
        ranked = sorted(self._alive, key=lambda pod: (pod.ready_at is None, pod.number))
        stopped = ranked[len(ranked) - count :]
        for pod in stopped:
            pod.stopped_at = second
        self._alive = [pod for pod in self._alive if pod.stopped_at is None]
        leaving = sum(pod.ready_at is not None for pod in stopped)
        if leaving:
            self.ready_count -= leaving
            gone = {pod.number for pod in stopped}
            self._give(second, [NOBODY if one in gone else one for one in self._working])
            self._rebalance(second, self._handover.left)

    def _join(self, second: float) -> None:
        """Let a Ready pod into the group; during a handover it waits for the next one."""
        if self._is_handing_over:
            self._has_waiting = True
            held_up_until = second + float(self._random.uniform(*self._handover.held_up))
            self._ends_at = max(self._ends_at, held_up_until)
        else:
            self._rebalance(second, self._handover.joined)

    def _rebalance(self, second: float, takes: tuple[float, float]) -> None:
        """Take away what moves when its owners learn of it; its new ones begin afterwards."""
        self._is_handing_over, self._has_waiting = True, False
        self._target = self._assigned([pod for pod in self._alive if pod.ready_at is not None])
        ends_at = self._ends_at = second + float(self._random.uniform(*takes))
        revoked_at = second + float(self._random.uniform(*self._handover.revoked))
        self.rebalances.append((second, ends_at))
        self._version += 1
        self._plan(min(revoked_at, ends_at), "revoke", self._version)
        self._plan(ends_at, "resume", self._version)

    def _assigned(self, pods: Sequence[SimulatedPod]) -> list[int]:
        if not pods:
            return [NOBODY] * len(self._target)
        ranked = sorted(pods, key=lambda pod: pod.member_rank)  # as assignors sort their members
        return self._assign(self._target, [pod.number for pod in ranked])

    def _revoke(self, second: float) -> None:
        both = zip(self._working, self._target, strict=True)
        kept = [NOBODY if self._is_eager or now != wanted else now for now, wanted in both]
        self._give(second, kept)

    def _hand_out(self, second: float, owners: list[int]) -> None:
        for number in set(owners) - {NOBODY}:
            if self.pods[number].assigned_at is None:
                self.pods[number].assigned_at = second
        self._give(second, owners)

    def _give(self, second: float, owners: list[int]) -> None:
        if owners == self._working:
            return
        self._working = owners
        phases = {number: self.pods[number].commit_phase for number in set(owners) - {NOBODY}}
        self._backlog.set_owners(second, owners, phases)


@lru_cache(maxsize=64)  # 25 ms each, and every policy on a seed has the same
def _shares(keys: Keys, partitions: int, seed: int) -> Reals:
    return partition_shares(keys, partitions, seed)


@lru_cache(maxsize=64)
def _load(profile: Profile, tail: Tail | None) -> OfferedLoad:
    return offered_load(profile) if tail is None else tail.after(offered_load(profile))


class World:
    """The state that scalers and autoscaler read; ``second`` counts from the stream's start."""

    def __init__(
        self,
        scenario: Scenario,
        environment: SimulatedEnvironment,
        random: np.random.Generator,
        *,
        replicas: int,
    ) -> None:
        """Begin ``lead_seconds`` before the stream with ``replicas`` working pods."""
        consumer = scenario.consumer
        self.scenario, self.environment = scenario, environment
        self.second = -environment.lead_seconds
        self.planned = _load(scenario.profile, None)
        """The planned window; the base load continues after it, as in a run."""
        load = _load(scenario.profile, tail_of(scenario, started_replicas=max(replicas, 1)))
        is_synthetic = scenario.payload is None
        shares = self._shares_of(scenario.partitions) if is_synthetic else topic_shares(scenario)
        self.traffic = Traffic(load, shares)
        self.pod_rate = consumer.pod_rate_per_second or np.inf
        self._pace = downstream_pace(scenario.actions)
        self.backlog = Backlog(
            self.traffic,
            pod_rate=self.pod_rate,
            commit_seconds=environment.commit_seconds,
            starts_at=self.second,
            pace=self._pace,
        )
        mean_start = environment.start_up_seconds
        process_seconds = 0.0
        if mean_start is None:
            mean_start = mean_start_seconds(consumer)
            process_seconds = environment.process_seconds
        self.fleet = Fleet(
            self.backlog,
            environment,
            random,
            balancer=consumer.balancer,
            replicas=replicas,
            starts_at=self.second,
            start=StartDelay(mean_start, scenario.seed, environment.start_up_spread),
            process_seconds=process_seconds,
        )

    def grow(self, partitions: int) -> None:
        """Have ``partitions`` in all from now on."""
        self.backlog.grow(self.second, self._shares_of(partitions))
        self.fleet.grow(self.second)

    def advance(self, second: float) -> None:
        """Let everything happen that is due up to ``second``."""
        if self.fleet.next_at <= second:
            self.fleet.advance(second)
        self.backlog.advance(second)
        self.second = second

    @property
    def now_ns(self) -> int:
        """Return the present instant as unix nanoseconds."""
        return self.instant_ns(self.second)

    def instant_ns(self, second: float) -> int:
        """Return an instant of the simulation as unix nanoseconds."""
        return self.environment.starts_at_seconds * NS_PER_SECOND + round(second * NS_PER_SECOND)

    def usage_millicores(self) -> int:
        """Return the CPU that a Ready pod uses on average: idle, and more the more it works."""
        around, served = self.environment, self.backlog.served_per_second
        ready = self.fleet.ready_count
        if not ready or not np.isfinite(self.pod_rate):
            return round(around.cpu_idle_millicores)
        busy = served / (ready * self.pod_rate / self._pace.factor_at(self.second))
        added = around.cpu_busy_millicores - around.cpu_idle_millicores
        work = served / ready * self.scenario.consumer.cpu_ms  # ms a second are millicores
        return round(around.cpu_idle_millicores + busy * added + work)

    def offsets(self) -> tuple[Ints, Ints]:
        """Return each partition's end and commit; the group has committed all at some time."""
        return self.backlog.offsets_at(self.second)

    def target(self) -> TargetView:
        """Return the workload as the autoscaler sees it now."""
        fleet = self.fleet
        return TargetView(fleet.spec_replicas, fleet.status_replicas, fleet.ready_count)

    def _shares_of(self, partitions: int) -> Reals:
        return _shares(self.scenario.keys, partitions, self.scenario.seed)
