"""Zipf draws, the seeded order of entities and Kafka's partitioner."""

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
    ZipfRanks,
    failing_seqs,
    partition_shares,
    partitions_of,
    poisoned_key,
    poisoned_seqs,
)
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.scenario import Keys, Scenario
from lagbench.errors import WrongInput


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


def test_probabilities_of_all_ranks_sum_to_one() -> None:
    """The tail's integral stands for its ranks to 1e-7."""
    ranks = np.arange(200_000)

    total = ZipfRanks(Keys(entities=200_000)).probability(ranks).sum()

    assert total == pytest.approx(1.0, abs=1e-7)


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


def test_uniform_keys_spread_evenly() -> None:
    """With s = 0 no partition stands out."""
    shares = partition_shares(Keys(entities=1_000_000, zipf_s=0), 24, 1)

    assert shares == pytest.approx(np.full(24, 1 / 24), rel=0.05)


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


def test_a_key_that_hangs_fails_nothing() -> None:
    """Its messages are processed, later."""
    scenario = poisoned(effect="hang")

    assert failing_seqs(scenario) is None
    assert len(poisoned_seqs(scenario)) > 10


def test_without_poison_nothing_is_poisoned() -> None:
    """That is the default."""
    scenario = load_scenario("quick_spike")

    assert (poisoned_key(scenario), failing_seqs(scenario)) == (None, None)
    assert np.array_equal(poisoned_seqs(scenario), [])


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
