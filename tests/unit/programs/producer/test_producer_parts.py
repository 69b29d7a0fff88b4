"""Messages of a user's samples: values, keys, places, and the identity in a header."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.scenario.event_stream import EventStream, partition_of_key, planned_partitions
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.payload import Samples
from lagbench.core.scenario.profiles import SteadyProfile
from lagbench.core.scenario.scenario import Keys, PartitionPlan
from lagbench.programs.producer.load_reports import LatenessCounts
from lagbench.programs.producer.message_feed import MessageBodies, SampleBodies
from lagbench.shared_with_spark.event import decode_identities, identity_of

PLAN = PartitionPlan(7)

LOAD = offered_load(SteadyProfile(kind="steady", rate_per_second=100, duration_seconds=20))

VALUES = (b"one", b"two" * 100, b"three")

FIELDS = ("seq", "entity_id", "planned_offset_ns", "producer_id")


def _stream() -> EventStream:
    return EventStream(LOAD, Keys(entities=50), seed=3)


@pytest.mark.parametrize("keys", [None, (b"k", b"other", b"k")], ids=["zipf", "field"])
def test_the_header_has_the_identity(keys: tuple[bytes, ...] | None) -> None:
    """Seq, entity, planned offset and producer come back from the header of the run alone."""
    made = SampleBodies(PLAN, Samples(VALUES, keys), run_id="r-1").of(_stream().block(0))
    headers = made.headers or []

    found = [identity_of(of_one, "r-1") for of_one in headers]
    events = decode_identities(b"".join(identity for identity in found if identity))

    assert len(events) == LOAD.total
    for field in FIELDS:
        assert (events[field] == made.events[field]).all()
    assert {identity_of(of_one, "r-10") for of_one in headers} == {None}
    assert identity_of([("other", b"x")], "r-1") is None
    assert identity_of(None, "r-1") is None


def test_samples_are_drawn_by_the_seed_and_keyed_by_zipf() -> None:
    """Each sample gets about its share, and keys and places are those of lagbench's own events."""
    own = MessageBodies(PLAN).of(_stream().block(0))
    made = SampleBodies(PLAN, Samples(VALUES, None), run_id="r").of(_stream().block(0))
    again = SampleBodies(PLAN, Samples(VALUES, None), run_id="r").of(_stream().block(0))

    assert made.values == again.values
    counts = [made.values.count(value) for value in VALUES]
    assert sum(counts) == LOAD.total
    assert min(counts) > 0.25 * LOAD.total
    assert (made.keys, made.partitions) == (own.keys, own.partitions)


def test_a_samples_own_key_decides_the_place_and_the_entity() -> None:
    """Samples with one key are one entity and lie in one partition, in their order."""
    keys = (b"k", b"other", b"k")
    made = SampleBodies(PLAN, Samples(VALUES, keys), run_id="r").of(_stream().block(0))

    wanted = dict(zip(VALUES, keys, strict=True))
    assert made.keys == [wanted[value] for value in made.values]
    assert made.partitions == [partition_of_key(key, 7) for key in made.keys]
    entity = {b"k": 0, b"other": 1}
    assert made.events["entity_id"].tolist() == [entity[key] for key in made.keys]


def test_the_partition_of_a_key_is_kafkas() -> None:
    """The same hash for keys of 8 bytes, and the hashes that Kafka's own test states."""
    entities = np.arange(200, dtype=np.uint64)
    planned = planned_partitions(entities, np.zeros(200, np.int64), PLAN).tolist()
    assert [partition_of_key(n.to_bytes(8, "big"), 7) for n in range(200)] == planned

    # of Kafka's UtilsTest.testMurmur2, as non-negative numbers
    for key, hashed in (
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("abc", 479470107),
    ):
        assert partition_of_key(key.encode(), 2**31) == hashed & 0x7FFFFFFF


def counted(*late_ms: float) -> LatenessCounts:
    """Return counts of some lateness in milliseconds."""
    counts = LatenessCounts()
    counts.add(np.array([round(value * 1e6) for value in late_ms], dtype=np.int64))
    return counts


def test_nothing_counted_has_no_percentile() -> None:
    """Missing is not zero."""
    assert LatenessCounts().percentile_ms(50) is None


@given(
    values=st.lists(st.floats(0.02, 100_000), min_size=1, max_size=200),
    percent=st.sampled_from([1, 50, 99, 100]),
)
def test_percentiles_are_at_most_two_percent_too_high(values: list[float], percent: int) -> None:
    """The bin's upper edge is never below the true percentile and 2 % above it at most."""
    counts = counted(*values)
    exact = float(np.percentile(values, percent, method="inverted_cdf"))

    found = counts.percentile_ms(percent)

    assert found is not None
    assert exact * 0.999999 <= found <= exact * 1.021
    assert counts.max_ms == pytest.approx(max(values), rel=1e-4)


def test_what_is_beyond_the_last_bin_is_still_the_maximum() -> None:
    """An event half an hour late is counted, and the maximum is exact."""
    counts = counted(1, 1_800_000)

    assert counts.max_ms == 1_800_000
    assert counts.count == 2


def test_merging_adds_both_counts() -> None:
    """The whole is the sum of its seconds."""
    whole = counted(1, 2, 3)

    whole.merge(counted(100))

    assert (whole.count, whole.max_ms) == (4, 100)
    assert whole.percentile_ms(75) == pytest.approx(3, rel=0.021)
