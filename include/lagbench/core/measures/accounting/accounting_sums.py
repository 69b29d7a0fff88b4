"""Check the sums of an accounting: every message, also a foreign one, is in exactly one class.

Each sum counts the same thing in two ways (families: ``message_classes.py``). A count that a run
never recorded is left out of its sum. A missing count that every run records leaves the sum
unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lagbench.shared_with_spark import message_classes as classes

LISTED_AT_MOST = 100_000
"""Up to this number in all classes the table ``bad_messages`` has each; else a share of a class."""
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
    broken = []
    for wanted in SUMS:
        parts, total = _known(wanted.parts, counts), _known(wanted.total, counts)
        if parts is None or total is None:
            continue
        if sum(parts.values()) == sum(total.values()):
            continue
        broken.append(f"{_side(parts)}, but {_side(total)}")
    return broken


def broken_classes(counts: Mapping[str, Any], listed: Mapping[str, int]) -> list[str]:
    """Return each class of accounting.json whose count, causes and rows differ.

    :param listed: rows of each class in the table ``bad_messages``.
    """
    by_cause = counts.get("by_class_and_cause") or {}
    known: dict[str, Any] = {name: counts.get(name) for name in classes.CLASSES}
    if known[classes.NOT_IN_LOG] is not None:  # excused by number: there is no row of this class
        known[classes.NOT_IN_LOG] += counts.get("not_in_log_excused") or 0
    is_whole_list = sum(count or 0 for count in known.values()) <= LISTED_AT_MOST
    broken = []
    for name, counted in known.items():
        if counted is None:
            continue
        caused, rows = sum(by_cause.get(name, {}).values()), listed.get(name, 0)
        if by_cause and caused != counted:
            broken.append(f"{_words(name)} {counted:,}, but {caused:,} by their causes")
        elif rows > counted or (is_whole_list and rows != counted):
            broken.append(f"{_words(name)} {counted:,}, but {rows:,} in the table bad_messages")
    return broken


def _known(names: Sequence[str], counts: Mapping[str, int | None]) -> dict[str, int] | None:
    """Return the known ones; None: one is missing that every run has."""
    known = {name: count for name in names if (count := counts.get(name)) is not None}
    return None if set(names) - set(known) - _NOT_IN_EVERY_RUN else known


def _side(known: Mapping[str, int]) -> str:
    terms = [f"{_words(name)} {count:,}" for name, count in known.items()]
    total = f" = {sum(known.values()):,}" if len(terms) > 1 else ""
    return f"{' + '.join(terms)}{total}"


def _words(name: str) -> str:
    return name.replace("_", " ")
