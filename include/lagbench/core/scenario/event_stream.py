"""Generate the seeded stream: Zipf keys, their partitions, events and payloads, poisoned ones.

A seed gives the same bytes on every machine: numpy's and libm's logarithms differ in the last bit
between CPUs and versions, so those here use only what IEEE 754 rounds exactly (+ - * / and scaling
by powers of two). Relative error below 4e-16 for log, 1e-15 for exp (tested).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lagbench.core.scenario.message_costs import PoisonedKey
from lagbench.core.scenario.offered_load import NS, OfferedLoad, offered_load
from lagbench.core.scenario.scenario import Keys, PartitionPlan, Scenario
from lagbench.shared_with_spark.event import EVENT_DTYPE, PAYLOAD_BYTES, Events

Floats = npt.NDArray[np.float64]

# ln 2 split so that k * _LN2_HIGH is exact for the exponents of a double.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SQRT_HALF = 0.7071067811865476
_ATANH_TERMS = tuple(1.0 / odd for odd in range(23, 0, -2))

_EXP_TERMS = (
    1 / 6227020800,
    1 / 479001600,
    1 / 39916800,
    1 / 3628800,
    1 / 362880,
    1 / 40320,
    1 / 5040,
    1 / 720,
    1 / 120,
    1 / 24,
    1 / 6,
    0.5,
    1.0,
    1.0,
)


def exact_log(values: Floats) -> Floats:
    """Return ln of positive numbers: 2 atanh((m - 1)/(m + 1)) of the mantissa m, plus e ln 2."""
    mantissa, exponent = np.frexp(values)
    is_low = mantissa < _SQRT_HALF
    mantissa = np.where(is_low, mantissa * 2.0, mantissa)
    powers = exponent.astype(np.float64) - is_low
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = np.full_like(square, _ATANH_TERMS[0])
    for term in _ATANH_TERMS[1:]:
        series = series * square + term
    return powers * _LN2_HIGH + (powers * _LN2_LOW + 2.0 * ratio * series)


def exact_exp(values: Floats) -> Floats:
    """Return e to the values (|value| < 700): Taylor of the rest after taking out powers of two."""
    powers = np.rint(values * (1.0 / (_LN2_HIGH + _LN2_LOW)))
    rest = (values - powers * _LN2_HIGH) - powers * _LN2_LOW
    series = np.full_like(rest, _EXP_TERMS[0])
    for term in _EXP_TERMS[1:]:
        series = series * rest + term
    return np.ldexp(series, powers.astype(np.int32))


def exact_power(bases: Floats, exponent: float) -> Floats:
    """Return positive ``bases`` to ``exponent``."""
    return exact_exp(exact_log(bases) * exponent)


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
    multiplier = np.uint32(0x5BD1E995)  # products wrap around, as in Kafka's
    words = entity_ids.astype(">u8").view("<u4").reshape(-1, 2)
    hashed = np.full(len(entity_ids), 0x9747B28C ^ 8, dtype=np.uint32)
    for column in (0, 1):
        word = words[:, column] * multiplier
        word ^= word >> np.uint32(24)
        hashed = hashed * multiplier ^ word * multiplier
    hashed ^= hashed >> np.uint32(13)
    hashed = hashed * multiplier
    hashed ^= hashed >> np.uint32(15)
    counts = np.asarray(partitions, dtype=np.uint32)
    return ((hashed & np.uint32(0x7FFFFFFF)) % counts).astype(np.int32)


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


BLOCK_EVENTS = 8192

# Half of the payload is random and half filler: lz4 then stores about half of each record, in a
# batch of one and in a batch of hundreds, as it does with records of text.
_RANDOM_WORDS = 14
_FILLER = b"."
EventBlock = npt.NDArray[np.void]


class EventStream:
    """Generate the events of one producer."""

    def __init__(self, load: OfferedLoad, keys: Keys, *, seed: int, producer_id: int = 0) -> None:
        """Bind the stream to its load, keys and seed."""
        self._load, self._seed, self._producer_id = load, seed, producer_id
        self._ranks, self._order = ZipfRanks(keys), EntityOrder(keys.entities, seed)

    def blocks(self) -> Iterator[EventBlock]:
        """Yield the whole stream in its own blocks."""
        for block in range(-(-self._load.total // BLOCK_EVENTS)):
            yield self.block(block)

    def block(self, index: int) -> EventBlock:
        """Return block ``index``: events from ``index * 8192`` on, fewer in the last block."""
        first = index * BLOCK_EVENTS
        count = max(0, min(BLOCK_EVENTS, self._load.total - first))
        key = np.array([self._seed, index], dtype=np.uint64)
        # random_raw is the generator's own definition; numpy may change what Generator derives.
        raw = np.random.Philox(key=key).random_raw(BLOCK_EVENTS * (1 + _RANDOM_WORDS))
        uniform = (raw[:BLOCK_EVENTS] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        events = np.zeros(count, dtype=EVENT_DTYPE)
        events["seq"] = np.arange(first, first + count, dtype=np.uint64)
        events["entity_id"] = self._order.entity_ids(self._ranks.draw(uniform[:count]))
        events["planned_offset_ns"] = self._load.planned_times(first, first + count)
        events["producer_id"] = self._producer_id
        random_bytes = raw[BLOCK_EVENTS:].astype("<u8", copy=False).view(np.uint8)
        payload = events["payload"].view((np.uint8, PAYLOAD_BYTES))
        payload[:, : _RANDOM_WORDS * 8] = random_bytes.reshape(BLOCK_EVENTS, -1)[:count]
        payload[:, _RANDOM_WORDS * 8 :] = ord(_FILLER)
        return events

    def events(self, seq_from: int, seq_to: int) -> EventBlock:
        """Return events ``seq_from`` to ``seq_to - 1`` (the stream's end cuts them)."""
        seq_to = min(seq_to, self._load.total)
        if seq_from >= seq_to:
            return np.zeros(0, dtype=EVENT_DTYPE)
        first, last = seq_from // BLOCK_EVENTS, (seq_to - 1) // BLOCK_EVENTS
        joined = np.concatenate([self.block(index) for index in range(first, last + 1)])
        return joined[seq_from - first * BLOCK_EVENTS : seq_to - first * BLOCK_EVENTS]


class StreamDigest:
    """SHA-256 over the values of the events sent with a seq below ``seq_to``, in that order.

    The tail beyond it is as long as the run needs, so with it no two digests would be equal.
    """

    def __init__(self, *, seq_to: int) -> None:
        """Start with no event."""
        self._seq_to, self._sha256 = seq_to, hashlib.sha256()

    def add(self, events: EventBlock) -> None:
        """Add the next events."""
        if len(events):
            events = events[: max(0, self._seq_to - int(events["seq"][0]))]
        self._sha256.update(np.ascontiguousarray(events).view(np.uint8).data)

    def hexdigest(self) -> str:
        """Return the digest of everything so far."""
        return self._sha256.hexdigest()

    def copy(self) -> StreamDigest:
        """Return an independent digest of everything so far."""
        twin = StreamDigest(seq_to=self._seq_to)
        twin._sha256 = self._sha256.copy()
        return twin


def poisoned_key(scenario: Scenario) -> PoisonedKey | None:
    """Return the poisoned key of a scenario; its window ends with the planned window."""
    poison = scenario.poison
    if poison is None:
        return None
    load = offered_load(scenario.profile)
    rank = np.array([poison.key_rank - 1], dtype=np.int64)
    from_ns = round(poison.from_seconds * NS)
    until_ns = from_ns + round(poison.for_seconds * NS)
    return PoisonedKey(
        entity_id=int(EntityOrder(scenario.keys.entities, scenario.seed).entity_ids(rank)[0]),
        effect=poison.effect,
        from_offset_ns=from_ns,
        until_offset_ns=min(until_ns, load.duration_ns),
        attempts=poison.attempts,
        hang_ns=round(poison.hang_seconds * NS),
    )


def is_poisoned(key: PoisonedKey, events: Events) -> npt.NDArray[np.bool_]:
    """Return for each event whether it is poisoned."""
    planned = events["planned_offset_ns"]
    found: npt.NDArray[np.bool_] = (
        (events["entity_id"] == key.entity_id)
        & (planned >= key.from_offset_ns)
        & (planned < key.until_offset_ns)
    )
    return found


def poisoned_seqs(scenario: Scenario) -> npt.NDArray[np.int64]:
    """Return the seqs of all poisoned messages of the planned window, ascending."""
    key = poisoned_key(scenario)
    if key is None:
        return np.zeros(0, dtype=np.int64)
    load = offered_load(scenario.profile)
    stream = EventStream(load, scenario.keys, seed=scenario.seed)
    first = load.planned_count_at(key.from_offset_ns - 1)
    events = stream.events(first, load.planned_count_at(key.until_offset_ns))
    return events["seq"][is_poisoned(key, events)].astype(np.int64)


def failing_seqs(scenario: Scenario) -> frozenset[int] | None:
    """Return the seqs of the messages that have to fail; None: the scenario lets none fail."""
    if scenario.poison is None or scenario.poison.effect != "fail":
        return None
    return frozenset(poisoned_seqs(scenario).tolist())
