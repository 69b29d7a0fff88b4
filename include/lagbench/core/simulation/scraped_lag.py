"""A source that holds samples of the group's lag: Prometheus, which scrapes the recorder."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import numpy as np

from lagbench.core.keda.loop import MetricReading, MetricSpec, trigger_metric_spec
from lagbench.core.keda.object import Trigger
from lagbench.core.keda.triggers import SampledLag
from lagbench.core.simulation.world import World


class ScrapedLag:
    """The total lag as Prometheus has it, which is some seconds old."""

    def __init__(self, world: World) -> None:
        """Begin with a sample that has been there for long."""
        self._world = world
        self._samples = [(float("-inf"), self._total())]

    def sample(self) -> None:
        """Take the lag of this instant: what is written and not committed.

        The recorder reads it now, and the scrape that sees it follows.
        """
        scraped_at = self._world.second + self._world.environment.scrape_delay_seconds
        self._samples.append((scraped_at, self._total()))

    def total_at(self, second: float) -> float:
        """Return the lag of the last scrape up to ``second``, which never falls."""
        while len(self._samples) > 1 and self._samples[1][0] <= second:
            del self._samples[0]
        return self._samples[0][1]

    def _total(self) -> float:
        offsets = self._world.offsets()
        return float(np.sum(offsets.end - offsets.committed))


class ScrapedScaler:
    """KEDA's scaler of a source that holds samples."""

    def __init__(
        self, trigger: Trigger, sampled: SampledLag, lag: ScrapedLag, world: World
    ) -> None:
        """Read the samples of ``lag`` by the rule of the trigger's type."""
        spec = trigger_metric_spec(trigger)
        self._specs: tuple[MetricSpec, ...] = () if spec is None else (spec,)
        self._sampled, self._lag, self._world = sampled, lag, world

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return the one metric of the trigger."""
        return self._specs

    def read(self, metric_name: str) -> MetricReading:  # noqa: ARG002 - there is only one
        """Return the query's value; KEDA requests it at a whole second."""
        value, is_active = self._sampled.reading(self._lag.total_at(floor(self._world.second)))
        return MetricReading((value,), is_active)

    def close(self) -> None:
        """Leave the samples as they are."""
