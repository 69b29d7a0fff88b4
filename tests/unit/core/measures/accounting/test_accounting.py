"""Accounting and handover gaps as measures."""

from dataclasses import replace

import pytest

from lagbench.core.measures.accounting.accounting import (
    BadMessage,
    accounting_measure,
    bad_message_groups,
)
from lagbench.core.measures.rebalance.partition_gaps import Handover, partition_gaps


def bad(pod: str | None, partition: int | None = 0, at: int | None = 5) -> BadMessage:
    """Return a duplicate next to a SIGTERM of pod x."""
    return BadMessage("duplicated", partition, pod, None, "sigterm", "x", at)


def test_groups_name_pod_partitions_and_first_instant() -> None:
    """Three by a on two partitions, one by b; the largest first."""
    groups = bad_message_groups([bad("b"), bad("a", 3), bad("a", 1, at=2), bad("a", 1, at=None)])

    assert [(group.pod, group.count) for group in groups] == [("a", 3), ("b", 1)]
    assert groups[0].partitions == (1, 3)
    assert groups[0].first_at == 2


def test_a_message_without_partition_is_counted() -> None:
    """A ledger record that names no log offset has no partition."""
    (group,) = bad_message_groups([bad(None, None)])

    assert (group.count, group.partitions, group.pod) == (1, (), None)


def test_without_accounting_every_count_is_missing() -> None:
    """None, not zero: nobody looked."""
    measure = accounting_measure(None, [])

    assert measure.lost is None
    assert measure.duplicated is None


def test_counts_are_taken_over() -> None:
    """A count that the job did not write stays missing."""
    counts = {"lost": 0, "in_log": 9, "by_pod": {"b": {"processed": 4}, "a": {"processed": 5}}}

    measure = accounting_measure(counts, [])

    assert (measure.lost, measure.in_log, measure.zombie) == (0, 9, None)
    assert [(work.pod, work.processed) for work in measure.by_pod] == [("a", 5), ("b", 4)]


@pytest.mark.parametrize(
    ("counts", "lost"),
    [
        ({"produced_acked": 9, "not_in_log": 4, "expired": 0}, 4),
        ({"produced_acked": 9, "not_in_log": 4, "expired": 3}, 1),
        ({"produced_acked": 9, "not_in_log": 4, "expired": 10}, 0),
        ({"produced_acked": None, "not_in_log": 4, "expired": 0}, None),
        ({"produced_acked": 9, "not_in_log": 4}, None),
    ],
)
def test_what_the_log_lacks_was_lost_unless_it_expired(
    counts: dict[str, int | None], lost: int | None
) -> None:
    """Of four that are at no offset three may have expired; a guess proves no loss."""
    measure = accounting_measure({"lost": 2, **counts}, [])

    assert measure.lost_in_broker == lost
    assert measure.lost_in_all == 2 + (lost or 0)


def test_gap_histogram() -> None:
    """Gaps of 0.2, 0.7 and 40 s; one below zero (two owners at once) counts as 0."""
    gaps = [Handover(p, 0, gap) for p, gap in enumerate((0.2, 0.7, 40.0, -1.0))]

    found = partition_gaps(gaps)

    assert found.handovers == 4
    assert found.max_seconds == 40
    assert found.max_partition == 2
    assert found.p50_seconds == pytest.approx(0.45)
    counted = {row.up_to_seconds: row.count for row in found.histogram if row.count}
    assert counted == {0.1: 1, 0.25: 1, 1.0: 1, None: 1}


def test_no_handover_no_gap() -> None:
    """Nothing moved: no percentile."""
    assert partition_gaps([]).max_seconds is None


def test_failed_messages_are_compared_with_the_poisoned_ones() -> None:
    """Of three messages that were given up two are poisoned; without poison none is."""
    rows = [replace(bad("a"), message_class="failed", seq=seq) for seq in (7, 8, 9)]

    found = accounting_measure({"failed": 3}, rows, poisoned_seqs={7, 9, 11})
    without = accounting_measure({"failed": 3}, rows)

    assert (found.failed, found.failed_by_plan, found.poisoned) == (3, 2, 3)
    assert found.failed_unplanned == 1
    assert (without.failed_unplanned, without.poisoned) == (3, None)


def test_failed_messages_that_are_not_all_listed_cannot_be_compared() -> None:
    """The table has a share of very many bad messages."""
    assert accounting_measure({"failed": 3}, [], poisoned_seqs={7}).failed_unplanned is None
