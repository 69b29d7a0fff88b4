"""Say which share of the load each partition gets: by the law of the keys, or by samples."""

from __future__ import annotations

from collections import Counter

import numpy as np

from lagbench.core.scenario.payload import Samples
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream.exact_math import Floats
from lagbench.core.scenario.stream.key_skew import partition_of_key, partition_shares


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
