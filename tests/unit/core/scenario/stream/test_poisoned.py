"""Which messages a scenario poisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lagbench.catalog.catalog import load_scenario
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream.event_stream import EventStream
from lagbench.core.scenario.stream.poisoned import failing_seqs, poisoned_key, poisoned_seqs
from lagbench.core.scenario.stream.profile import offered_load
from lagbench.errors import WrongInput

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
