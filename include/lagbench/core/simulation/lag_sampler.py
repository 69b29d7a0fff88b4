"""The lag scaler's server in a simulation, with the real windows and rule.

It samples on a clock of its own, whatever calls arrive in between; its state outlives its clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lagbench.core.keda.loop import MetricReading, MetricSpec, ScalerFailed
from lagbench.core.keda.object import Trigger
from lagbench.core.lag_scaler import GroupSample, GroupWindow, parse_lag_settings
from lagbench.core.simulation.world import World


class LagSampler:
    """One object's window over the simulated group."""

    def __init__(self, metadata: Mapping[str, str], world: World) -> None:
        """Read the object's settings; nothing is sampled yet."""
        self.settings = parse_lag_settings(metadata)
        rule = self.settings.rule
        self._world = world
        self._window = GroupWindow("simulated", rule.sampling_interval_seconds)
        self.rule = self._window.watch(rule)

    @property
    def interval_seconds(self) -> float:
        """Return the sampling interval."""
        return self._window.interval_seconds

    def sample(self) -> None:
        """Take in the offsets of this instant."""
        world = self._world
        end, committed = world.backlog.offsets_at(world.second)
        partitions = np.arange(end.size, dtype=np.int32)
        log_start = np.zeros_like(end)  # nothing of the simulated log ever expires
        self._window.add(GroupSample(world.now_ns, partitions, end, committed, log_start))


class LagScaler:
    """KEDA's side of the connection: asks the server, as its external scaler does."""

    def __init__(self, trigger: Trigger, sampler: LagSampler, world: World) -> None:
        """Ask ``sampler``, whose metric the server names."""
        self._sampler, self._world = sampler, world
        spec = MetricSpec(
            name=f"s{trigger.index}-{sampler.settings.metric_name}",
            kind="External",
            target_type=trigger.metric_type,
            target_milli=round(sampler.settings.target * 1000),
        )
        self._specs = (spec,)

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return the one metric."""
        return self._specs

    def read(self, metric_name: str) -> MetricReading:
        """Return the decision of the newest sample; the server's errors are NotReady."""
        if metric_name != self._specs[0].name:
            raise ScalerFailed(f"the lag scaler has no metric {metric_name}")
        decision = self._sampler.rule.decide(self._world.now_ns)
        return MetricReading((decision.metric_value,), decision.is_active)

    def close(self) -> None:
        """Leave the server as it is."""
