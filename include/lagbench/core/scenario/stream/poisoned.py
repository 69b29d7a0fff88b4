"""Find the messages that a scenario poisons: by key and planned instant, so by identity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lagbench.core.scenario.poison import PoisonedKey
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream.event_stream import EventStream
from lagbench.core.scenario.stream.key_skew import EntityOrder
from lagbench.core.scenario.stream.profile import NS, offered_load
from lagbench.shared_with_spark.event import Events


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
