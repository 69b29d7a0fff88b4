"""How KEDA reads the values of a trigger's metadata, and what its names may hold."""

from __future__ import annotations

import re

NS_PER_SECOND = 1_000_000_000

# The spellings that Go's ParseBool knows; nothing else is a boolean for KEDA.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_MOST_PARTITIONS = 100_000  # no topic has more: the rest of a range keeps nothing
_INT32 = range(-(2**31), 2**31)


def go_boolean(text: str) -> bool | None:
    """Return what Go's ParseBool reads; None when it reads nothing."""
    return text in _TRUE if text in _TRUE | _FALSE else None


def normalize_metric_name(name: str) -> str:
    """Return ``name`` with the characters that a metric name may not hold turned into ``-``."""
    return name.translate(dict.fromkeys(map(ord, "/.:%()"), "-"))


def parse_partition_limitation(text: str) -> tuple[int, ...]:
    """Return the partitions of ``1,2,5-9``; a reversed range yields nothing.

    :raises ValueError: it has another form.
    """
    partitions: list[int] = []
    for piece in (piece.strip() for piece in text.split(",")):
        ends = [end.strip() for end in piece.split("-")] if "-" in piece else [piece]
        numbers = [int(end) for end in ends if re.fullmatch(r"[+-]?[0-9]+", end)]
        are_right = len(numbers) == len(ends) <= 2 and all(n in _INT32 for n in numbers)
        if not are_right:
            raise ValueError(f"invalid partition limitation: {piece}")
        room = _MOST_PARTITIONS - len(partitions)
        partitions += range(numbers[0], min(numbers[-1] + 1, numbers[0] + room))
    return tuple(partitions)


def divisors(number: int) -> list[int]:
    """Return the divisors of ``number`` in ascending order; none for a number below one."""
    return [candidate for candidate in range(1, number + 1) if number % candidate == 0]
