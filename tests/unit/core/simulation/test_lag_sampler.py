"""The lag scaler's server in the simulation: what it is told of the simulated log."""

import numpy as np

from lagbench.core.measures.statistics import Ints
from lagbench.core.scenario.profiles import SteadyProfile
from lagbench.core.scenario.scenario import ConsumerSettings, Keys, Scenario
from lagbench.core.simulation.environment import SimulatedEnvironment
from lagbench.core.simulation.lag_sampler import LagSampler
from lagbench.core.simulation.world import World

METADATA = {
    "bootstrapServers": "kafka:9092",
    "consumerGroup": "enrich",
    "topic": "events",
    "offsetResetPolicy": "earliest",
}


class NothingCommitted(World):
    """A world whose group has committed nothing yet."""

    def __init__(self) -> None:
        """Begin with 2 pods on 4 partitions."""
        scenario = Scenario(
            name="fresh",
            description="a group without commits",
            partitions=4,
            keys=Keys(entities=1000, zipf_s=0),
            profile=SteadyProfile(kind="steady", rate_per_second=100, duration_seconds=60),
            consumer=ConsumerSettings(process_ms=2),
            policy="tried",
        )
        random = np.random.Generator(np.random.Philox(1))
        super().__init__(scenario, SimulatedEnvironment(), random, replicas=2)
        self.backlog.offsets_at = no_commits  # type: ignore[method-assign]


def no_commits(second: float) -> tuple[Ints, Ints]:
    """Return 300 records on each partition, and no commit."""
    return np.full(4, 300), np.full(4, -1)


def test_without_a_commit_all_of_the_log_waits_when_read_from_the_earliest_record() -> None:
    """The simulated log begins at 0: 4 partitions of 300 records are 1,200, not unknown."""
    world = NothingCommitted()
    sampler = LagSampler(METADATA, world)

    sampler.sample()

    figures = sampler.rule.decide(world.now_ns).figures
    assert (figures.total_lag, figures.without_commit) == (1200, 4)
