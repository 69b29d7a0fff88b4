"""Keys that a growth of the topic moved to another partition."""

from __future__ import annotations

import numpy as np

from lagbench.core.measures.accounting import NOT_BEGUN, MovedKeys, moved_keys

Row = tuple[int, int, int, int]
"""entity, partition, seq, start"""


def moved(*rows: Row) -> MovedKeys:
    """Return the moved keys of these messages."""
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    return moved_keys(*columns)


def test_a_key_in_two_partitions_has_moved() -> None:
    """It is named with its partitions in the order of its messages; one that stayed is not."""
    found = moved((7, 5, 3, 30), (7, 1, 1, 10), (7, 1, 2, 20), (8, 2, 4, 40), (8, 2, 5, 50))

    assert (found.keys, found.messages, found.overtaken) == (1, 3, 0)
    (key,) = found.largest
    assert (key.entity_id, key.partitions, key.messages) == (7, (1, 5), 3)


def test_a_message_left_in_the_old_backlog_is_overtaken() -> None:
    """Messages 2 and 3 of the old partition began after message 4 of the new one."""
    found = moved((7, 1, 1, 10), (7, 1, 2, 60), (7, 1, 3, 70), (7, 5, 4, 50), (7, 5, 5, 80))

    assert found.overtaken == 2


def test_a_wrong_order_inside_of_one_partition_is_another_class() -> None:
    """That is *reordered*: the growth did not break it."""
    found = moved((7, 1, 1, 20), (7, 1, 2, 10), (7, 5, 3, 30), (7, 5, 4, 50), (7, 5, 5, 40))

    assert (found.keys, found.overtaken) == (1, 0)


def test_a_message_that_nobody_began_is_lost_and_not_overtaken() -> None:
    """It has no start that could be late."""
    found = moved((7, 1, 1, NOT_BEGUN), (7, 5, 2, 30))

    assert (found.messages, found.overtaken) == (2, 0)


def test_keys_are_compared_with_their_own_messages_alone() -> None:
    """Ten keys at random agree with the definition, pair by pair."""
    random = np.random.default_rng(5)
    rows: list[Row] = []
    for seq in range(400):
        entity = int(random.integers(10))
        is_later = seq >= 200
        partition = entity % 4 + (4 if is_later and entity % 2 else 0)
        rows.append((entity, partition, seq, int(random.integers(1000))))

    expected = sum(
        any(
            other[0] == row[0] and other[1] != row[1] and other[2] > row[2] and other[3] < row[3]
            for other in rows
        )
        for row in rows
    )

    found = moved(*rows)
    assert (found.keys, found.overtaken) == (5, expected)
    assert sum(key.overtaken for key in found.largest) == expected


def test_a_topic_without_moved_keys_has_none() -> None:
    """Every key stayed where it was."""
    found = moved((7, 1, 1, 10), (8, 2, 2, 20))

    assert (found.keys, found.messages, found.overtaken, found.largest) == (0, 0, 0, ())
