"""Name the keys whose partition changed while the topic grew, and the order that this broke.

Kafka keeps the order of a partition. A key that moves leaves its earlier messages behind in the old
partition, where a backlog may hold them up: another pod begins later ones first. No consumer can
help that, so it is not *reordered*; it is what a growth of the topic costs.
"""

from __future__ import annotations

import numpy as np

from lagbench.core.measures.model import MeasureModel
from lagbench.core.measures.statistics import Ints

MOST_NAMED = 10
NOT_BEGUN = np.iinfo(np.int64).max
"""As the start of a message that no pod has begun."""


class MovedKey(MeasureModel):
    """One key with its partitions in the order of its messages."""

    entity_id: int
    partitions: tuple[int, ...]
    messages: int
    overtaken: int


class MovedKeys(MeasureModel):
    """The keys that have messages in several partitions; ``largest`` are those with the most."""

    keys: int
    messages: int  # in the log, of these keys
    overtaken: int  # begun after a later message of their key in another partition
    largest: tuple[MovedKey, ...]


def moved_keys(entity_ids: Ints, partitions: Ints, seqs: Ints, started: Ints) -> MovedKeys:
    """Return the moved keys of the messages in the log, given in any order.

    :param started: first start of each message in unix ns, NOT_BEGUN if there is none.
    """
    order = np.lexsort((seqs, entity_ids))
    key, part, begun = entity_ids[order], partitions[order], started[order]
    is_first = np.ones(key.size, dtype=bool)
    is_first[1:] = key[1:] != key[:-1]
    moves = ~is_first
    moves[1:] &= part[1:] != part[:-1]
    group = np.cumsum(is_first) - 1
    has_moved = np.zeros(int(is_first.sum()), dtype=bool)
    has_moved[group[moves]] = True
    kept = has_moved[group]
    key, part, begun, is_first, moves = (a[kept] for a in (key, part, begun, is_first, moves))
    group = np.cumsum(is_first) - 1
    overtaken = _overtaken(begun, group, moves)
    counts = np.bincount(group)
    most = np.argsort(-counts, kind="stable")[:MOST_NAMED]
    starts = np.flatnonzero(is_first)
    return MovedKeys(
        keys=counts.size,
        messages=int(key.size),
        overtaken=int(overtaken.sum()),
        largest=tuple(
            MovedKey(
                entity_id=int(key[starts[of]]),
                partitions=_in_order(part[group == of]),
                messages=int(counts[of]),
                overtaken=int(overtaken[group == of].sum()),
            )
            for of in most
        ),
    )


def _overtaken(begun: Ints, group: Ints, moves: np.ndarray) -> np.ndarray:
    """Return which messages were begun after a later one of their key in another partition.

    Rows are sorted by key and seq. The earliest start of all later rows of the key comes from one
    minimum over the rows in reverse: each key's ranks lie below those of the keys behind it.
    """
    size = begun.size
    rank = np.argsort(np.argsort(begun, kind="stable"), kind="stable")
    depth = (group[-1] - group) * size if size else group
    earliest = np.minimum.accumulate((rank - depth)[::-1])[::-1] + depth
    changes = np.flatnonzero(moves)
    following = np.searchsorted(changes, np.arange(size), side="right")
    has_next = following < changes.size
    next_row = changes[np.minimum(following, max(changes.size - 1, 0))] if changes.size else group
    same_key = has_next & (group[next_row] == group)
    found: np.ndarray = same_key & (earliest[next_row] < rank) & (begun != NOT_BEGUN)
    return found


def _in_order(partitions: Ints) -> tuple[int, ...]:
    return tuple(dict.fromkeys(partitions.tolist()))
