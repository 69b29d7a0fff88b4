"""Find where the group's committed offset moved back, from the offsets that the recorder read.

A pod learns of its commits from callbacks, which can overtake each other. The coordinator's offsets
cannot: an offset that is lower in a later reading was set back, and the messages in between are
processed again. Offsets set ahead past unprocessed messages mean lost messages; the accounting
finds them by identity.
"""

from __future__ import annotations

from collections.abc import Iterable

from lagbench.core.measures.model import MeasureModel


class CommitMove(MeasureModel):
    """The group's committed offset was set back; ``at`` is the reading that shows it."""

    at: int
    partition: int
    from_offset: int
    to_offset: int


def commits_moved_back(
    readings: Iterable[tuple[int, int, int | None]], fenced: tuple[int, dict[int, int]] | None
) -> tuple[CommitMove, ...]:
    """Return the moves, by instant.

    :param readings: at, partition and committed offset (None: none), in any order.
    :param fenced: the fence's instant and committed offsets, the last reading.
    """
    known = [(at, partition, offset) for at, partition, offset in readings if offset is not None]
    if fenced is not None:
        fenced_at, offsets = fenced
        known += [(fenced_at, partition, offset) for partition, offset in offsets.items()]
    last: dict[int, int] = {}
    moves = []
    for at, partition, offset in sorted(known):
        before = last.get(partition)
        if before is not None and offset < before:
            moves.append(
                CommitMove(at=at, partition=partition, from_offset=before, to_offset=offset)
            )
        last[partition] = offset
    return tuple(moves)
