"""A fifth member joins four: what the group processes meanwhile, on a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.integration.consumer_group import (
    ConsumerGroupRun,
    LedgerRows,
    consumer_group_run,
    eventually,
)

from lagbench.adapters.kafka_admin import KafkaAdmin
from lagbench.core.telemetry import FirstRecordDone, PartitionsRevoked
from lagbench.embedded.broker import Broker

pytestmark = pytest.mark.integration

PARTITIONS = 24
RATE_PER_SECOND = 4800
BEFORE_SECONDS, AFTER_SECONDS = 4, 6
# Half as much again as is offered: what waited during a handover is made up for.
FLAGS = ["--process-ms=2", "--concurrency=4"]
NS = 1_000_000_000


@pytest.fixture
def run(broker: Broker, tmp_path: Path) -> Iterator[ConsumerGroupRun]:
    """Provide topics of 24 partitions."""
    with consumer_group_run(broker.bootstrap_servers, tmp_path, partitions=PARTITIONS) as found:
        yield found


def join_fifth(run: ConsumerGroupRun, admin: KafkaAdmin, balancer: str) -> tuple[LedgerRows, int]:
    """Offer a steady load to four members, let a fifth join; returns ledger and join instant."""
    flags = [*FLAGS, f"--balancer={balancer}"]
    for number in range(4):
        run.start(f"pod-{number}", *flags)
    run.await_members(admin, 4)
    total = RATE_PER_SECOND * (BEFORE_SECONDS + AFTER_SECONDS)
    load = threading.Thread(target=run.offer, args=(total,), kwargs={"rate_per_second": 4800})
    load.start()
    time.sleep(BEFORE_SECONDS)
    joined_at = time.time_ns()
    run.start("pod-4", *flags)
    load.join()
    eventually(
        lambda: any(seen.source == "pod-4" for seen in run.telemetry(FirstRecordDone)) or None,
        "the fifth member's first record",
        within_seconds=30,
    )
    rows = run.await_processed(total, within_seconds=30)
    assert [run.terminate(pod) for pod in run.pods] == [0] * 5
    return rows, joined_at


def assert_each_exactly_once(run: ConsumerGroupRun) -> None:
    """Check the whole ledger by identity."""
    seqs, times = np.unique(run.ledger().seq, return_counts=True)
    assert seqs.size == run.sent
    assert times.max() == 1


def longest_gaps(rows: LedgerRows, partitions: set[int], since: int) -> dict[int, float]:
    """Return each partition's longest time in seconds between two records done."""
    gaps = {}
    for partition in partitions:
        mine = (rows.partition == partition) & (rows.done_at >= since)
        gaps[partition] = float(np.diff(np.sort(rows.done_at[mine])).max() / NS)
    return gaps


@pytest.mark.parametrize("balancer", ["cooperative-sticky", "consumer"])
def test_retained_partitions_go_on_while_others_move(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin, balancer: str
) -> None:
    """An incremental rebalance stops only what moves: no second of the group loses a half.

    A consumer that polls and works in one thread stood still for 0.5 to 1.9 s here. Undisturbed,
    retained partitions have gaps below 0.1 s; the limits leave room for a busy machine.
    """
    rows, joined_at = join_fifth(run, kafka_admin, balancer)

    moved = {int(number) for number in rows.partition[rows.pod == "pod-4"]}
    assert 1 <= len(moved) <= PARTITIONS // 4
    revoked = [seen for seen in run.telemetry(PartitionsRevoked) if seen.owned]
    assert {len(seen.partitions) for seen in revoked if seen.at > joined_at} <= {1, 2}
    ended_at = joined_at + (AFTER_SECONDS - 1) * NS
    during = LedgerRows(*(column[rows.done_at < ended_at] for column in vars(rows).values()))
    retained = set(range(PARTITIONS)) - moved
    gaps = sorted(longest_gaps(during, retained, joined_at).values())
    assert gaps[len(gaps) // 2] < 0.5, gaps
    assert gaps[-1] < 1.0, gaps
    done_at = np.sort(rows.done_at[np.isin(rows.partition, list(retained))])
    starts = np.arange(joined_at, ended_at - NS, NS // 20)
    per_second = np.searchsorted(done_at, starts + NS) - np.searchsorted(done_at, starts)
    expected = RATE_PER_SECOND * len(retained) / PARTITIONS
    assert per_second.min() > 0.5 * expected
    assert_each_exactly_once(run)


def test_an_eager_rebalance_loses_and_repeats_nothing(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin
) -> None:
    """Everybody gives up everything, finishes and commits first: each event is processed once."""
    join_fifth(run, kafka_admin, "range")

    assert any(len(seen.partitions) == 6 for seen in run.telemetry(PartitionsRevoked))
    assert_each_exactly_once(run)
