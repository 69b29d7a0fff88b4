"""Measure the events per second of 24 consumers with their ledger, fed by a backlog."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from lagbench.adapters.kafka.kafka_lag import open_admin, read_group_lag
from lagbench.core.scenario.run_names import RunNames
from lagbench.errors import NotReady
from tests.benchmarks.cpu_log import CpuLog
from tests.benchmarks.figures import Figure, at_least
from tests.benchmarks.group import CAPACITY_PER_SECOND, Group
from tests.benchmarks.ledger_rows import LedgerRows, read_ledger
from tests.benchmarks.load import send_load
from tests.benchmarks.stage import create_topics, open_stage

NAME = "consumers"
PODS = 24
WORK_SECONDS = 20.0
SHORTEST_SECONDS = 4.0
# What the first pods process while the last ones still start (24 starts on two cores: 12 s).
START_EVENTS = 700_000
AIM_PER_SECOND = 60_000
_TRIM_NS = 1_000_000_000
_LIMIT_SECONDS = 180.0


def measure(scale: float) -> Iterator[Figure]:
    """Yield the group's rate in the steady middle, and the cores that it took."""
    seconds = max(WORK_SECONDS * scale, SHORTEST_SECONDS)
    events = START_EVENTS + round(PODS * CAPACITY_PER_SECOND * seconds)
    names = RunNames("backlog")
    with open_stage() as stage:
        broker = stage.start_broker()
        create_topics(broker, names, PODS)
        flags = ["--flat-out", "--count", str(events), "--zipf-s", "0"]
        send_load(stage, broker, names, flags, within_seconds=_LIMIT_SECONDS)
        group = Group(stage, broker, names, "cooperative-sticky", PODS)
        asked_at = time.monotonic()
        group.add(PODS)
        group.await_balance()
        balanced_seconds = time.monotonic() - asked_at
        cpu = CpuLog({"consumers": [m.pid for m in group.members], "broker": [broker.pid or 0]})
        admin = open_admin(broker.bootstrap_servers)

        def is_drained() -> bool:
            cpu.sample()
            offsets = read_group_lag(admin, names.group, names.events_topic).values()
            return all(read.committed == read.end for read in offsets)

        stage.await_true(
            is_drained, "the drained backlog", within_seconds=_LIMIT_SECONDS, every_seconds=0.5
        )
        group.end()
        rows = read_ledger(broker.bootstrap_servers, names.processed_topic)
    done = rows.first_time_done()
    from_at, until_at = steady_middle(done)
    length = (until_at - from_at) / 1e9
    count = int(np.count_nonzero((done.done_at >= from_at) & (done.done_at < until_at)))
    note = f"{count:,} distinct in {length:.1f} s, of a capacity of {PODS * CAPACITY_PER_SECOND:,}"
    yield Figure(
        f"{PODS} pods: processed, with ledger",
        count / length,
        "events/s",
        at_least(AIM_PER_SECOND),
        note,
    )
    for part in ("consumers", "broker"):
        yield Figure(f"{part}: processor", cpu.cores(part, from_at, until_at), "cores")
    yield Figure("backlog processed", float(done.offset.size), "events", at_least(events))
    again = float(rows.offset.size - done.offset.size)
    yield Figure("processed again", again, "events", None, "rebalances while the pods start")
    yield Figure("start of all pods to balance", balanced_seconds, "s")


def steady_middle(done: LedgerRows) -> tuple[int, int]:
    """Return the period in which every pod has begun and every partition has work left.

    A second is cut off at both ends.

    :raises NotReady: there is no such period of half a second.
    """
    begun = [int(done.done_at[done.pod == pod].min()) for pod in np.unique(done.pod)]
    ended = [int(done.done_at[done.partition == p].max()) for p in np.unique(done.partition)]
    from_at, until_at = max(begun) + _TRIM_NS, min(ended) - _TRIM_NS
    if until_at - from_at < 500_000_000:
        raise NotReady(
            f"the backlog was too small: all pods worked for {(min(ended) - max(begun)) / 1e9:.1f}"
            " s only; give a larger --scale"
        )
    return from_at, until_at
