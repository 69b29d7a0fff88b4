"""Spikes and tail of a load, the stream of its keys, and poisoned ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.catalog.catalog import load_scenario
from lagbench.core.scenario.event_stream import (
    EntityOrder,
    EventStream,
    StreamDigest,
    ZipfRanks,
    failing_seqs,
    partition_shares,
    partitions_of,
    poisoned_key,
    poisoned_seqs,
)
from lagbench.core.scenario.offered_load import (
    OfferedLoad,
    Spike,
    load_spikes,
    offered_load,
)
from lagbench.core.scenario.profiles import (
    BurstyProfile,
    SteadyProfile,
    StepProfile,
    TraceProfile,
    trace_points,
)
from lagbench.core.scenario.scenario import Keys, Scenario
from lagbench.core.scenario.stream_tail import Tail, resting_lag_records, resting_replicas, tail_of
from lagbench.errors import WrongInput


def trace(*rows: tuple[float, float], marks: str = "") -> OfferedLoad:
    """Return the load of a trace; ``marks`` has a 0 or 1 for each row."""
    header = "second,rate" + ",spike" * bool(marks)
    lines = [
        f"{second},{rate}" + (f",{marks[index]}" if marks else "")
        for index, (second, rate) in enumerate(rows)
    ]
    points = trace_points("\n".join([header, *lines]), where="t.csv")
    return offered_load(TraceProfile(kind="trace", file="t.csv", points=points))


def periods(load: OfferedLoad, floor: float | None = 1000) -> list[tuple[float, float]]:
    """Return from when to when the spikes last."""
    found = load_spikes(load, started_replicas=1, pod_rate=floor)
    return [(spike.start_seconds, spike.end_seconds) for spike in found]


STEP_OF_TEN = StepProfile(
    kind="step",
    rate_per_second=10,
    spike_mult=5,
    before_seconds=8,
    spike_hold_seconds=20,
    after_seconds=4,
)
BURSTS = BurstyProfile(
    kind="bursty", rate_per_second=10, quiet_seconds=5, spike_hold_seconds=2, bursts=2
)
STEADY = SteadyProfile(kind="steady", rate_per_second=5000, duration_seconds=100)


@pytest.mark.parametrize(
    ("profile", "found"),
    [(STEP_OF_TEN, [(8, 28)]), (BURSTS, [(5, 7), (12, 14)]), (STEADY, [])],
)
def test_a_profile_says_what_its_spikes_are(profile: Any, found: list[tuple[float, float]]) -> None:
    """Even below the floor's rate, and none where the floor cannot take a steady load."""
    assert periods(offered_load(profile)) == found


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (((0, 500), (20, 4000), (60, 500), (90, 0)), [(20, 60)]),
        (((0, 500), (20, 4000), (34.9, 500), (90, 0)), []),  # shorter than a sync of the HPA
        (((0, 500), (20, 4000), (35, 500), (90, 0)), [(20, 35)]),
        (((0, 500), (20, 1500), (30, 900), (40, 3000), (50, 500), (90, 0)), [(20, 50)]),
        (((0, 500), (20, 1500), (40, 900), (55, 3000), (80, 500), (90, 0)), [(20, 40), (55, 80)]),
        (((0, 2000), (30, 500), (90, 0)), [(0, 30)]),
        (((0, 500), (20, 1000), (90, 0)), []),  # exactly what the floor can do
        (((0, 500), (60, 2000), (90, 0)), [(60, 90)]),
    ],
)
def test_a_trace_has_spikes_where_the_floor_cannot_follow(
    rows: tuple[tuple[float, float], ...], found: list[tuple[float, float]]
) -> None:
    """Above 1,000/s for a whole sync of 15 s; shorter gaps join."""
    assert periods(trace(*rows)) == found


def test_a_spike_of_a_trace_knows_its_rates() -> None:
    """The rate before it, and the highest in it; a pod without a limit has no spike."""
    load = trace((0, 500), (20, 1500), (40, 4500), (60, 1200), (80, 300), (90, 0))

    assert load_spikes(load, started_replicas=1, pod_rate=1000) == (Spike(20, 80, 500, 4500),)
    assert periods(load, floor=None) == []


def test_a_trace_that_marks_its_spikes_is_taken_at_its_word() -> None:
    """Of 1 s, and with none at all where every row says 0."""
    rows = ((0.0, 500.0), (20.0, 600.0), (21.0, 9000.0), (90.0, 0.0))

    assert periods(trace(*rows, marks="0100")) == [(20, 21)]
    assert periods(trace(*rows, marks="0000")) == []


STEP = {
    "kind": "step",
    "rate_per_second": 1000,
    "before_seconds": 3,
    "spike_hold_seconds": 2,
    "after_seconds": 1.2345,
}


def scenario(profile: dict[str, Any], **others: Any) -> Scenario:
    """Return a scenario with this load; one pod does 500/s."""
    fields = {"name": "mine", "description": "x", "partitions": 4, "policy": "lag-quick"}
    return Scenario.model_validate(fields | {"profile": profile} | others)


def trace_of(*rates: float) -> dict[str, Any]:
    """Return a trace_of with a second of each rate."""
    points = [{"second": at, "rate_per_second": rate} for at, rate in enumerate((*rates, 0))]
    return {"kind": "trace", "file": "t.csv", "points": points}


def rate_of(profile: dict[str, Any], **others: Any) -> float | None:
    """Return the tail's rate with two pods at the floor; None: no tail."""
    tail = tail_of(scenario(profile, **others), started_replicas=2)
    return None if tail is None else tail.rate_per_second


def test_the_planned_window_is_the_same_stream_with_and_without_a_tail() -> None:
    """Byte for byte: seqs, instants, keys and payload of what the scenario plans."""
    planned = offered_load(scenario(STEP).profile)
    whole = planned.with_tail(777.7, 10)

    alone = EventStream(planned, Keys(), seed=7).events(0, planned.total)
    with_tail = EventStream(whole, Keys(), seed=7).events(0, whole.total)

    assert len(with_tail) == whole.total == planned.total + 7777
    assert with_tail[: planned.total].tobytes() == alone.tobytes()
    first = int(with_tail["planned_offset_ns"][planned.total])
    assert planned.duration_ns < first <= planned.duration_ns + 1e9 / 777.7 + 1
    assert planned.with_tail(1000, 10).steps == planned.steps  # at the same rate none is added


def test_a_digest_is_of_the_planned_window_alone() -> None:
    """However long the tail was, the digest is the one of the scenario's own events."""
    planned = offered_load(scenario(STEP).profile)
    events = EventStream(planned.with_tail(1000, 10), Keys(), seed=7).events(0, 10**9)
    digests = set()
    for end in (planned.total, planned.total + 1, len(events)):
        digest = StreamDigest(seq_to=planned.total)
        for part in np.array_split(events[:end], 5):
            digest.add(part)
        digests.add(digest.hexdigest())

    alone = StreamDigest(seq_to=planned.total)
    alone.add(events[: planned.total])
    assert digests == {alone.hexdigest()}


def test_a_step_goes_on_at_its_base_rate() -> None:
    """Also when it ends with its spike; the bound covers drain, settling and the way between."""
    timeouts = {"drain_seconds": 50, "settle_seconds": 70}

    assert tail_of(scenario(STEP, timeouts=timeouts), started_replicas=2) == Tail(1000, 240)
    assert rate_of(STEP | {"after_seconds": 0}) == 1000


def test_steady_load_and_none_have_no_tail() -> None:
    """A steady profile is base load all along."""
    steady = {"kind": "steady", "rate_per_second": 5, "duration_seconds": 5}

    assert rate_of(steady) is None
    assert rate_of(STEP, tail="none") is None


def test_a_trace_goes_on_at_its_last_rate_unless_that_is_a_spike() -> None:
    """Two pods do 1,000/s: what is above that is a spike, and then the lowest rate continues."""
    assert rate_of(trace_of(300, 4000, 700)) == 700
    assert rate_of(trace_of(300, 700, 4000)) == 300
    assert rate_of(trace_of(300, 700, 0)) is None


def test_lag_at_rest_is_never_zero_under_load() -> None:
    """The policy's threshold, or two seconds of the base load where that is more."""
    assert resting_lag_records(Tail(600, 10), lag_threshold=500) == 1200
    assert resting_lag_records(Tail(600, 10), lag_threshold=5000) == 5000
    assert resting_lag_records(None, lag_threshold=500) == 500


@pytest.mark.parametrize(
    ("rate", "floor", "at_rest"),
    [(900, 2, (2, 2)), (900, 0, (1, 2)), (1600, 2, (2, 4)), (9000, 2, (2, 12)), (None, 0, (0, 0))],
)
def test_replicas_at_rest_hold_the_base_load(
    rate: float | None, floor: int, at_rest: tuple[int, int]
) -> None:
    """The floor, at least one pod, and up to what the load needs; without load the floor."""
    tail = None if rate is None else Tail(rate, 10)
    found = resting_replicas(scenario(STEP), tail, floor_replicas=floor, ceiling_replicas=12)

    assert found == at_rest


@pytest.mark.parametrize("s", [0.0, 0.7, 1.0, 1.1, 2.5])
@pytest.mark.parametrize("entities", [1, 7, 1024, 1025, 50_000])
def test_draws_have_zipf_frequencies(s: float, entities: int) -> None:
    """Every rank from an even grid of uniform numbers is drawn about as often as Zipf says."""
    grid = (np.arange(400_000) + 0.5) / 400_000

    ranks = ZipfRanks(Keys(entities=entities, zipf_s=s)).draw(grid)

    weights = np.arange(1, entities + 1, dtype=np.float64) ** -s
    expected = np.cumsum(weights) / weights.sum()
    found = np.cumsum(np.bincount(ranks, minlength=entities)) / len(grid)
    assert ranks.min() >= 0
    assert ranks.max() < entities
    # One grid step, and the head's integral at a table of 1024 ranks.
    assert np.abs(found - expected).max() < 1e-5


@given(entities=st.integers(1, 3_000), seed=st.integers(0, 2**63 - 1))
def test_the_order_of_entities_is_one_to_one(entities: int, seed: int) -> None:
    """Every rank has its own entity, for any count and seed."""
    ids = EntityOrder(entities, seed).entity_ids(np.arange(entities))

    assert sorted(ids.tolist()) == list(range(entities))


def test_another_seed_has_other_hot_entities() -> None:
    """The hottest entity differs between seeds, and with it the hottest partition's share."""
    hottest = {int(EntityOrder(5_000_000, seed).entity_ids(np.arange(1))[0]) for seed in range(20)}

    assert len(hottest) == 20


def test_shares_are_those_of_a_long_sample() -> None:
    """The expected share of each partition is met by a million draws to 0.2 %."""
    keys, seed = Keys(), 11
    shares = partition_shares(keys, 12, seed)
    uniform = np.random.default_rng(5).random(1_000_000)
    ids = EntityOrder(keys.entities, seed).entity_ids(ZipfRanks(keys).draw(uniform))

    sampled = np.bincount(partitions_of(ids, 12), minlength=12) / len(ids)

    assert shares.sum() == pytest.approx(1.0)
    assert np.abs(shares - sampled).max() < 0.002
    assert shares.max() == pytest.approx(0.164, abs=0.001)


NS = 1_000_000_000


def poisoned(**fields: Any) -> Scenario:
    """Return quick_spike with the second most frequent key poisoned for five seconds."""
    stated = {"key_rank": 2, "effect": "fail", "from_seconds": 20, "for_seconds": 5, **fields}
    return load_scenario("quick_spike", {f"poison.{name}": str(v) for name, v in stated.items()})


def test_poisoned_are_the_messages_of_the_key_in_the_window() -> None:
    """The seqs found from the window alone are those of a search in the whole stream."""
    scenario = poisoned()
    load = offered_load(scenario.profile)
    events = EventStream(load, scenario.keys, seed=scenario.seed).events(0, load.total)
    key = poisoned_key(scenario)
    assert key is not None
    seconds = events["planned_offset_ns"] / NS
    of_key = events["entity_id"] == key.entity_id

    expected = events["seq"][of_key & (seconds >= 20) & (seconds < 25)]

    assert len(expected) > 10
    assert poisoned_seqs(scenario).tolist() == expected.tolist()
    assert failing_seqs(scenario) == set(expected.tolist())


def test_a_lower_rank_is_a_rarer_key() -> None:
    """Rank 1 is the most frequent key, under any seed."""
    counts = [len(poisoned_seqs(poisoned(key_rank=rank))) for rank in (1, 10, 100)]

    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 5 * counts[1]


def test_the_window_ends_with_the_planned_window() -> None:
    """Messages of the tail are never poisoned: how many there are is not known before."""
    key = poisoned_key(poisoned(from_seconds=80, for_seconds=1000))

    assert key is not None
    assert key.until_offset_ns == 85 * NS


def test_a_key_that_hangs_fails_nothing_and_no_poison_is_none() -> None:
    """Messages that hang are processed, later."""
    hanging, without = poisoned(effect="hang"), load_scenario("quick_spike")

    assert failing_seqs(hanging) is None
    assert len(poisoned_seqs(hanging)) > 10
    assert (poisoned_key(without), failing_seqs(without)) == (None, None)
    assert not len(poisoned_seqs(without))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"key_rank": 4_900_000}, "poison"),
        ({"key_rank": 5_000_001}, "poison.key_rank"),
        ({"effect": "explode"}, "poison.effect"),
        ({"from_seconds": 86}, "poison"),
        ({"for_second": 3}, "poison.for_second"),
    ],
)
def test_poison_without_messages_is_rejected(fields: dict[str, Any], field: str) -> None:
    """A run in which nothing can fail would prove nothing about it."""
    with pytest.raises(WrongInput, check=lambda error: error.field == field):
        poisoned(**fields)
