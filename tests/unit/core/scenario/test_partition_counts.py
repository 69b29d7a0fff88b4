"""The partitions of a topic that grows in a run."""

from __future__ import annotations

import numpy as np
import pytest

from lagbench.catalog.catalog import load_scenario
from lagbench.core.scenario.partition_counts import FOLLOW_SECONDS, Growth, PartitionCounts
from lagbench.core.scenario.stream import moved_share, partitions_of
from lagbench.errors import WrongInput

NS = 1_000_000_000


def test_the_producer_follows_a_growth_by_plan() -> None:
    """Messages planned from 2 s after the growth on use the new partitions, whoever asks when."""
    counts = PartitionCounts(12, [Growth(40, 24), Growth(90, 48)])
    edge = round((40 + FOLLOW_SECONDS) * NS)

    used = counts.used_at(np.array([0, edge - 1, edge, 91 * NS, 92 * NS]))

    assert used.tolist() == [12, 12, 24, 24, 48]
    assert counts.most == 48


def test_the_text_of_the_growths_is_read_back() -> None:
    """A flag carries them to the producer."""
    counts = PartitionCounts(12, [Growth(40.5, 24), Growth(90, 48)])

    assert counts.text == "40.5:24,90:48"
    assert PartitionCounts.of_text(12, counts.text).growths == counts.growths


@pytest.mark.parametrize("text", ["40", "40:12", "40:24,40:48", "40:24,90:20", "40:2000", "-1:24"])
def test_a_topic_never_shrinks(text: str) -> None:
    """A growth adds partitions, at a second of its own, up to a thousand."""
    with pytest.raises(ValueError, match=r"partitions|growths|form"):
        PartitionCounts.of_text(12, text)


@pytest.mark.parametrize(
    ("actions", "field"),
    [
        ("[{kind: grow_partitions, at_seconds: 40, partitions: 12}]", "actions.0.partitions"),
        ("[{kind: grow_partitions, at: lag_drained, partitions: 24}]", "actions.0.at_seconds"),
        (
            "[{kind: grow_partitions, at_seconds: 50, partitions: 24},"
            " {kind: grow_partitions, at_seconds: 40, partitions: 30}]",
            "actions.0.partitions",
        ),
        (
            "[{kind: grow_partitions, at_seconds: 40, partitions: 24},"
            " {kind: grow_partitions, at_seconds: 40, partitions: 30}]",
            "actions.1.at_seconds",
        ),
    ],
)
def test_a_growth_that_adds_nothing_is_named_by_its_place(actions: str, field: str) -> None:
    """The message names the action that is wrong."""
    with pytest.raises(WrongInput) as refused:
        load_scenario("quick_spike", {"actions": actions})

    assert refused.value.field == field


def test_each_key_has_the_partition_of_its_own_count() -> None:
    """One call with two counts gives what two calls give."""
    ids = np.arange(1000, dtype=np.uint64)
    counts = np.where(ids < 500, 12, 24)

    found = partitions_of(ids, counts)

    assert found[:500].tolist() == partitions_of(ids[:500], 12).tolist()
    assert found[500:].tolist() == partitions_of(ids[500:], 24).tolist()


def test_half_of_uniform_keys_move_when_the_partitions_double() -> None:
    """A key of partition p goes to p or to p + 12."""
    keys = load_scenario("quick_spike", {"keys.zipf_s": "0"}).keys

    assert moved_share(keys, 12, 24, seed=1) == pytest.approx(0.5, abs=0.01)
    assert moved_share(keys, 12, 12, seed=1) == 0
