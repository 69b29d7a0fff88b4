"""Assign an entity to each event by Zipf draws, and compute Kafka's partition for the entity.

Ranks up to 1024 are drawn from their exact probabilities. Above 1024, a rank's probability is taken
as the integral of x^-s around it, with a relative error of s(s + 1)/(24 * 1024^2) (9e-8 at
s = 1.1). The integral inverts in closed form, so no table over millions of entities is needed. One
draw uses one uniform number, so draw k depends only on the seed and k.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lagbench.core.scenario.partition_plan import PartitionPlan
from lagbench.core.scenario.scenario import Keys
from lagbench.core.scenario.stream.exact_math import (
    Floats,
    exact_exp,
    exact_log,
    exact_power,
)

_HEAD_RANKS = 1024
# Below this distance from 1 the power law's integral is taken as the logarithm.
_NEAR_ONE = 1e-9
# Ranks whose partitions are looked up one by one for the expected shares; at s = 1.1 over 5 M
# the higher ranks hold 10 % of the events, spread over 4.7 M entities, so they are even to 0.1 %.
_COUNTED_RANKS = 1 << 18
_UINT32 = np.uint64(0xFFFFFFFF)

EntityIds = npt.NDArray[np.uint64]


class ZipfRanks:
    """Map uniform numbers to ranks 0, 1, 2, … of falling frequency."""

    def __init__(self, keys: Keys) -> None:
        """Prepare the head's table and the tail's integral."""
        self._entities, self._s = keys.entities, keys.zipf_s
        head = min(_HEAD_RANKS, keys.entities)
        weights = exact_power(np.arange(1, head + 1, dtype=np.float64), -keys.zipf_s)
        self._low, self._high = head + 0.5, keys.entities + 0.5
        tail = self._integral(self._low, self._high) if keys.entities > head else 0.0
        # fsum is exactly rounded, independent of the order in which numpy adds.
        self._total = math.fsum(weights.tolist()) + tail
        sums = np.add.accumulate(weights)
        self._head_cdf = sums / self._total
        if not tail:
            self._head_cdf[-1] = 1.0
        self._head_share = float(self._head_cdf[-1])

    def draw(self, uniform: Floats) -> npt.NDArray[np.int64]:
        """Return the rank of each uniform number in [0, 1)."""
        ranks = np.searchsorted(self._head_cdf, uniform, side="right")
        is_tail = ranks >= len(self._head_cdf)
        if is_tail.any():
            share = (uniform[is_tail] - self._head_share) / (1.0 - self._head_share)
            ranks[is_tail] = np.minimum(self._inverse(share), self._entities) - 1
        return ranks

    def probability(self, ranks: npt.NDArray[np.int64]) -> Floats:
        """Return the share of all events that each rank gets."""
        shares: Floats = exact_power(ranks.astype(np.float64) + 1.0, -self._s) / self._total
        return shares

    def _integral(self, low: float, high: float) -> float:
        ends = np.array([low, high])
        if abs(self._s - 1.0) < _NEAR_ONE:
            logs = exact_log(ends)
            return float(logs[1] - logs[0])
        powers = exact_power(ends, 1.0 - self._s)
        return float((powers[1] - powers[0]) / (1.0 - self._s))

    def _inverse(self, share: Floats) -> npt.NDArray[np.int64]:
        """Return the number of the rank (from 1) below which ``share`` of the tail lies."""
        ends = np.array([self._low, self._high])
        if abs(self._s - 1.0) < _NEAR_ONE:
            logs = exact_log(ends)
            where = exact_exp(logs[0] + share * (logs[1] - logs[0]))
        else:
            powers = exact_power(ends, 1.0 - self._s)
            mixed = powers[0] + share * (powers[1] - powers[0])
            where = exact_power(mixed, 1.0 / (1.0 - self._s))
        return np.floor(where + 0.5).astype(np.int64)


class EntityOrder:
    """A seeded one-to-one map from rank to entity id: ``(step * rank + shift) mod entities``.

    With rank = id the same few partitions would be hot under every seed, and ten seeds
    would measure one placement ten times.
    """

    def __init__(self, entities: int, seed: int) -> None:
        """Pick step and shift by the seed; a step prime to ``entities`` gives a one-to-one map."""
        raw = np.random.Philox(key=np.array([seed, int(_UINT32)], dtype=np.uint64)).random_raw(2)
        step = int(raw[0]) % entities
        while math.gcd(step, entities) != 1:
            step += 1
        self._entities, self._step, self._shift = entities, step, int(raw[1]) % entities

    def entity_ids(self, ranks: npt.NDArray[np.int64]) -> EntityIds:
        """Return the entity of each rank (step * rank stays below 1e16: 1e8 entities at most)."""
        ids = (ranks * self._step + self._shift) % self._entities
        return ids.astype(np.uint64)


def partitions_of(
    entity_ids: EntityIds, partitions: int | npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Return the partition that Kafka's default partitioner gives each key (8 bytes, big endian).

    ``partitions``: how many there are, for all keys or for each of them.
    """
    multiplier = np.uint64(0x5BD1E995)
    words = entity_ids.astype(">u8").view("<u4").reshape(-1, 2)
    hashed = np.full(len(entity_ids), 0x9747B28C ^ 8, dtype=np.uint64)
    for column in (0, 1):
        word = words[:, column].astype(np.uint64) * multiplier & _UINT32
        word ^= word >> np.uint64(24)
        hashed = (hashed * multiplier & _UINT32) ^ (word * multiplier & _UINT32)
    hashed ^= hashed >> np.uint64(13)
    hashed = hashed * multiplier & _UINT32
    hashed ^= hashed >> np.uint64(15)
    counts = np.asarray(partitions, dtype=np.uint64)
    return ((hashed & np.uint64(0x7FFFFFFF)) % counts).astype(np.int32)


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner gives a key of any length."""
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    hashed = 0x9747B28C ^ len(key)
    whole = len(key) - len(key) % 4
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * multiplier & mask
        word ^= word >> 24
        hashed = (hashed * multiplier & mask) ^ (word * multiplier & mask)
    if whole < len(key):
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * multiplier & mask
    hashed ^= hashed >> 13
    hashed = hashed * multiplier & mask
    hashed ^= hashed >> 15
    return (hashed & 0x7FFFFFFF) % partitions


def planned_partitions(
    entity_ids: EntityIds, planned_offset_ns: npt.NDArray[np.int64], plan: PartitionPlan
) -> npt.NDArray[np.int32]:
    """Return the partition of each message: by its key, and the partitions at its instant."""
    if not plan.growths:
        return partitions_of(entity_ids, plan.first)
    return partitions_of(entity_ids, plan.at_offsets(planned_offset_ns))


@lru_cache(maxsize=4)  # the same for every seed, and two thirds of the work
def _rank_shares(keys: Keys) -> Floats:
    ranks = np.arange(min(_COUNTED_RANKS, keys.entities), dtype=np.int64)
    shares = ZipfRanks(keys).probability(ranks)
    shares.flags.writeable = False
    return shares


def partition_shares(keys: Keys, partitions: int, seed: int) -> Floats:
    """Return the expected share of the events in each partition; the shares sum to 1."""
    ranks = np.arange(min(_COUNTED_RANKS, keys.entities), dtype=np.int64)
    where = partitions_of(EntityOrder(keys.entities, seed).entity_ids(ranks), partitions)
    shares = np.bincount(where, weights=_rank_shares(keys), minlength=partitions)
    rest = max(0.0, 1.0 - float(shares.sum())) / partitions
    expected: Floats = np.add(shares, rest, dtype=np.float64)
    return expected
