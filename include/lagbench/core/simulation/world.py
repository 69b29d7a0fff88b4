"""The simulated world at one instant: clock, backlog and pods, moved forward together."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lagbench.core.keda.loop.scaler import TargetView
from lagbench.core.kubernetes.instants import NS_PER_SECOND
from lagbench.core.measures.statistics import Ints, Reals
from lagbench.core.scenario.actions import downstream_pace
from lagbench.core.scenario.profiles import Profile
from lagbench.core.scenario.scenario import Keys, Scenario
from lagbench.core.scenario.start_delay import StartDelay, mean_start_seconds
from lagbench.core.scenario.stream.key_skew import partition_shares
from lagbench.core.scenario.stream.profile import OfferedLoad, offered_load
from lagbench.core.scenario.stream.tail import Tail, tail_of
from lagbench.core.scenario.stream.topic_shares import topic_shares
from lagbench.core.simulation.backlog import Backlog, Traffic
from lagbench.core.simulation.environment import SimulatedEnvironment
from lagbench.core.simulation.fleet import Fleet


@lru_cache(maxsize=64)  # 25 ms each, and every policy on a seed has the same
def _shares(keys: Keys, partitions: int, seed: int) -> Reals:
    return partition_shares(keys, partitions, seed)


@lru_cache(maxsize=64)
def _load(profile: Profile, tail: Tail | None) -> OfferedLoad:
    return offered_load(profile) if tail is None else tail.after(_load(profile, None))


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
        if mean_start is None:
            mean_start = mean_start_seconds(consumer)
        self.fleet = Fleet(
            self.backlog,
            environment,
            random,
            balancer=consumer.balancer,
            replicas=replicas,
            starts_at=self.second,
            start=StartDelay(mean_start, scenario.seed, environment.start_up_spread),
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
