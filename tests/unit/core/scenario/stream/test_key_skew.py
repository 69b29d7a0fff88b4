"""Zipf draws, the seeded order of entities and Kafka's partitioner."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.scenario.scenario import Keys
from lagbench.core.scenario.stream.key_skew import (
    EntityOrder,
    ZipfRanks,
    partition_shares,
    partitions_of,
)


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
