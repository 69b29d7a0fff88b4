"""Define the tail of a stream: the base load that continues after the planned window.

Scale-downs come after the spike. Without load there, they would meet an idle group: nothing could
be processed twice and no dip could be seen. So the producer continues until the replicas are
settled and the run stops it; the bound is for a run in which nothing stops it. The tail is load,
not sample: it does not extend any measure that is judged over the planned window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import ceil, inf
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from lagbench.core.scenario.actions import actions_seconds
from lagbench.core.scenario.event_stream import Floats, partition_of_key, partition_shares
from lagbench.core.scenario.offered_load import OfferedLoad, Spike, load_spikes, offered_load
from lagbench.core.scenario.payload import Samples
from lagbench.core.scenario.profiles import (
    MOST_PER_SECOND,
    Profile,
    StagesProfile,
    SteadyProfile,
    TraceProfile,
)
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario

TAIL_MARGIN_SECONDS = 120.0
"""Added to the waits for drain and settling: time between the waiting tasks, and one retry."""
RESTING_LAG_SECONDS = 2.0
"""At rest the lag consists of the arrivals since the last commit: consumers commit once a second,
and a commit follows the answer of the ledger."""


RUN_TAIL_FIELD = "planned_tail"
"""In the manifest of a second group: the tail of the run, null if it has none."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The base load after the planned window: at this rate, for at most this long."""

    rate_per_second: Annotated[float, Field(gt=0, le=MOST_PER_SECOND, allow_inf_nan=False)]
    most_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    def after(self, planned: OfferedLoad) -> OfferedLoad:
        """Return the planned load followed by the tail; the planned part is unchanged."""
        return planned.with_tail(self.rate_per_second, self.most_seconds)


def spikes_of(scenario: Scenario, *, started_replicas: int) -> tuple[Spike, ...]:
    """Return the spikes of the planned window under a policy with that floor with load."""
    load, rate = offered_load(scenario.profile), scenario.consumer.pod_rate_per_second
    return load_spikes(load, started_replicas=started_replicas, pod_rate=rate)


def tail_of(scenario: Scenario, *, started_replicas: int) -> Tail | None:
    """Return the scenario's tail under a policy that starts with ``started_replicas``."""
    if scenario.tail == "none" or isinstance(scenario.profile, SteadyProfile):
        return None
    floor_rate = started_replicas * _pod_rate(scenario.consumer)
    rate = _rate_after(scenario.profile, offered_load(scenario.profile), floor_rate)
    timeouts = scenario.timeouts
    most_seconds = timeouts.drain_seconds + timeouts.settle_seconds + TAIL_MARGIN_SECONDS
    most_seconds += actions_seconds(scenario.actions, timeouts.drain_seconds)
    return Tail(rate, most_seconds) if rate > 0 else None


def tail_of_run(
    manifest: Mapping[str, Any], scenario: Scenario, *, started_replicas: int
) -> Tail | None:
    """Return the tail of a run folder's run; None: there is none.

    The first group's consumers and actions decide it, so a second group's ``manifest`` notes it.
    """
    if RUN_TAIL_FIELD not in manifest:
        return tail_of(scenario, started_replicas=started_replicas)
    noted = manifest[RUN_TAIL_FIELD]
    return None if noted is None else Tail(**noted)


def resting_lag_records(tail: Tail | None, *, lag_threshold: float) -> int:
    """Return the total lag up to which a group under the base load is at rest, never 0 with it."""
    in_flight = 0.0 if tail is None else tail.rate_per_second * RESTING_LAG_SECONDS
    return int(max(lag_threshold, in_flight))


def resting_replicas(
    scenario: Scenario, tail: Tail | None, *, floor_replicas: int, ceiling_replicas: int
) -> tuple[int, int]:
    """Return the fewest and the most replicas at which the policy is at rest."""
    if tail is None:
        return floor_replicas, floor_replicas
    least = max(floor_replicas, 1)
    needed = ceil(tail.rate_per_second / _pod_rate(scenario.consumer))
    return least, max(least, min(needed, ceiling_replicas))


def _rate_after(profile: Profile, load: OfferedLoad, floor_rate: float) -> float:
    """Return the rate of the last segment, or the base rate if that segment is a spike.

    A trace or stages need not mark spikes: there the segment also counts as one if the floor is
    not enough, because with such a tail the replicas would never come down.
    """
    last = load.segments[-1]
    need_not_mark = isinstance(profile, TraceProfile | StagesProfile)
    is_above_floor = need_not_mark and last.rate_per_second > floor_rate
    return load.base_rate if last.is_spike or is_above_floor else last.rate_per_second


def _pod_rate(consumer: ConsumerSettings) -> float:
    return consumer.pod_rate_per_second or inf


def sample_shares(samples: Samples, partitions: int) -> tuple[float, ...] | None:
    """Return the share of each partition, by the samples' own keys; None: they have none."""
    if samples.keys is None:
        return None
    counts = Counter(partition_of_key(key, partitions) for key in samples.keys)
    return tuple(counts[number] / len(samples.keys) for number in range(partitions))


def topic_shares(scenario: Scenario) -> Floats:
    """Return the expected share of the events in each partition at the start; they sum to 1."""
    payload = scenario.payload
    if payload is not None and payload.partition_shares is not None:
        return np.array(payload.partition_shares, dtype=np.float64)
    return partition_shares(scenario.keys, scenario.partitions, scenario.seed)
