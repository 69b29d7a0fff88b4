"""Check the sums of an accounting: every message, also a foreign one, is in exactly one class.

Each sum counts the same thing in two ways (families: ``message_classes.py``). A count that a run
never recorded is left out of its sum. A missing count that every run records leaves the sum
unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lagbench.shared_with_spark import message_classes as classes

_NOT_IN_EVERY_RUN = frozenset(
    {
        classes.FAILED,
        classes.FOREIGN,
        classes.NOT_IN_LOG_FAILED,
        classes.NOT_IN_LOG_UNKNOWN,
        "processed_foreign",
    }
)


@dataclass(frozen=True, slots=True)
class Sum:
    """``parts`` together are ``total`` together."""

    parts: tuple[str, ...]
    total: tuple[str, ...]


SUMS = (
    # Offsets below the fence.
    Sum(("in_log", "expired", "log_holes"), ("below_fence",)),
    # Seqs handed over, and the other records in the log.
    Sum(
        ("in_log", *classes.ABSENT, "not_in_log_excused"),
        (
            "produced_acked",
            "produced_failed",
            "produced_unknown",
            classes.PRODUCED_TWICE,
            classes.FOREIGN,
        ),
    ),
    # Records in the log.
    Sum(
        (
            "processed_distinct",
            classes.LOST,
            classes.FAILED,
            classes.NOT_YET_CONSUMED,
            classes.FOREIGN,
        ),
        ("in_log",),
    ),
    # Processings in the ledger.
    Sum(
        (
            "processed_distinct",
            classes.DUPLICATED,
            classes.FAILED,
            classes.UNKNOWN_MESSAGE,
            "processed_foreign",
        ),
        ("processed_records",),
    ),
    # The same by pod and by partition.
    Sum(("processed_by_pods",), ("processed_records",)),
    Sum(("duplicated_by_pods",), (classes.DUPLICATED,)),
    Sum(("in_partitions",), ("in_log",)),
)


def broken_sums(counts: Mapping[str, int | None]) -> list[str]:
    """Return each sum of ``counts`` that does not hold, in words; empty: all known ones hold."""
    return [text for found in SUMS if (text := _broken(found, counts))]


def broken_classes(
    counts: Mapping[str, int | None],
    by_cause: Mapping[str, Mapping[str, int]],
    listed: Mapping[str, int],
    *,
    is_whole_list: bool,
) -> list[str]:
    """Return each class whose count, causes and rows in ``bad_messages`` differ.

    :param by_cause: messages of each class by cause.
    :param listed: rows of each class in the table ``bad_messages``.
    :param is_whole_list: the table has every bad message, not only a share of them.
    """
    broken = []
    for name in classes.CLASSES:
        known = [counts.get(name)]
        if name == classes.NOT_IN_LOG:  # messages excused by number have no row of this class
            known.append(counts.get("not_in_log_excused"))
        if known[0] is None:
            continue
        counted = sum(count or 0 for count in known)
        caused = sum(by_cause.get(name, {}).values())
        rows = listed.get(name, 0)
        if by_cause and caused != counted:
            broken.append(f"{_words(name)} {counted:,}, but {caused:,} by their causes")
        elif rows > counted or (is_whole_list and rows != counted):
            broken.append(f"{_words(name)} {counted:,}, but {rows:,} in the table bad_messages")
    return broken


def _broken(wanted: Sum, counts: Mapping[str, int | None]) -> str:
    parts, total = _known(wanted.parts, counts), _known(wanted.total, counts)
    if parts is None or total is None:
        return ""
    if sum(parts.values()) == sum(total.values()):
        return ""
    return f"{_side(parts)}, but {_side(total)}"


def _known(names: Sequence[str], counts: Mapping[str, int | None]) -> dict[str, int] | None:
    known: dict[str, int] = {}
    for name in names:
        count = counts.get(name)
        if count is not None:
            known[name] = count
        elif name not in _NOT_IN_EVERY_RUN:
            return None
    return known


def _side(known: Mapping[str, int]) -> str:
    terms = [f"{_words(name)} {count:,}" for name, count in known.items()]
    if len(terms) == 1:
        return terms[0]
    return f"{' + '.join(terms)} = {sum(known.values()):,}"


def _words(name: str) -> str:
    return name.replace("_", " ")
