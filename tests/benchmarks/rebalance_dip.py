"""What a fifth member costs a group of four at full work: dip depth and area, by balancer.

Four pods of 4,000/s work on a backlog, so the rate before is what they can do, 16,000/s, and no
pause can be made up for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import numpy as np

from lagbench.core.measures.rate_dip import (
    WINDOW_BINS,
    RateDip,
    episode_bins,
    mean_rate_before,
    rate_dip,
    rate_series,
)
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.broker import Broker
from lagbench.errors import NotReady
from tests.benchmarks.figures import Figure, at_most
from tests.benchmarks.group import CAPACITY_PER_SECOND, Group
from tests.benchmarks.ledger_rows import LedgerRows, read_ledger
from tests.benchmarks.load import send_load
from tests.benchmarks.stage import Stage, create_topics, open_stage

NAME = "dip"
PARTITIONS = 24
MEMBERS = 4
JOINS = 3
BEFORE_SECONDS = 10.0
AFTER_SECONDS = 6.0
# A start and its rebalance took 1 to 4 s on a busy machine; the backlog must outlast them.
_JOIN_SECONDS = 8.0
_LIMIT_SECONDS = 120.0
# A prototype of this consumer had 0 % for both incremental balancers and 15 % (0.26 s of full
# rate) for range; a window of 1 s tells no less than 1 %.
AIMS = {
    "cooperative-sticky": (1.0, 0.02),
    "consumer": (1.0, 0.02),
    "range": (15.0, 0.26),
}
Join = tuple[int, int]


def measure(scale: float) -> Iterator[Figure]:
    """Yield the deepest dip and its area for each balancer."""
    joins = max(round(JOINS * scale), 1)
    with open_stage() as stage:
        broker = stage.start_broker()
        for balancer, (aim_percent, aim_seconds) in AIMS.items():
            dips = _dips(stage, broker, balancer, joins)
            depths = [dip.dip_percent for dip in dips if dip.dip_percent is not None]
            areas = [dip.area_seconds for dip in dips if dip.area_seconds is not None]
            if len(depths) < joins or len(areas) < joins:
                reasons = "; ".join(dip.reason for dip in dips if dip.reason)
                raise NotReady(f"a dip of {balancer} could not be measured: {reasons}")
            name = "KIP-848" if balancer == "consumer" else balancer
            rates = [dip.expected_rate_per_second or 0.0 for dip in dips]
            note = f"of {joins} joins; all {_list(depths, 1)} %; before {_list(rates, 0)}/s"
            yield Figure(f"{name}: dip, median", median(depths), "%", at_most(aim_percent), note)
            note = f"of full rate; all {_list(areas, 2)} s"
            yield Figure(f"{name}: area, median", median(areas), "s", at_most(aim_seconds), note)


def _dips(stage: Stage, broker: Broker, balancer: str, joins: int) -> list[RateDip]:
    names = RunNames(f"dip-{balancer}")
    create_topics(broker, names, PARTITIONS)
    work_seconds = BEFORE_SECONDS + AFTER_SECONDS + 2 * _JOIN_SECONDS
    events = round((MEMBERS + 1) * CAPACITY_PER_SECOND * work_seconds * joins)
    flags = ["--flat-out", "--count", str(events), "--zipf-s", "0"]
    send_load(stage, broker, names, flags, within_seconds=_LIMIT_SECONDS)
    group = Group(stage, broker, names, balancer, PARTITIONS)
    group.add(MEMBERS)
    group.await_balance()
    seen: list[Join] = []
    for _ in range(joins):
        _let_pass(stage, BEFORE_SECONDS + 1)
        started_at = time.time_ns()
        group.add()
        group.await_balance()
        seen.append((started_at, time.time_ns()))
        _let_pass(stage, AFTER_SECONDS)
        group.remove_newest()
        group.await_balance()
    group.end()
    ledger = read_ledger(broker.bootstrap_servers, names.processed_topic)
    return [_dip(ledger.first_time_done(), join, events) for join in seen]


def _dip(done: LedgerRows, join: Join, events: int) -> RateDip:
    """Return the dip of one join; the watch ends with it, before the fifth member leaves."""
    left = events - int(np.count_nonzero(done.done_at < join[1] + round(AFTER_SECONDS * 1e9)))
    if left <= 0:
        raise NotReady(f"the backlog of {events:,} was used up before the join was over")
    # Everything was offered before anything was done: there is always work.
    at = np.concatenate([[done.done_at[0] - 1_000_000_000], done.done_at])
    offered = np.zeros(at.size, dtype=np.int64)
    offered[0] = events
    processed = np.ones(at.size, dtype=np.int64)
    processed[0] = 0
    rate = rate_series(at, offered, processed)
    over_at = join[1] + round(AFTER_SECONDS * 1e9)
    watched = episode_bins(rate, started_at=join[0], settled_at=join[1], next_started_at=over_at)
    before = mean_rate_before(rate, join[0])
    if before is None:
        raise NotReady("the group had not worked for a second before the join")
    expected = np.full(watched.watch - watched.first, before / WINDOW_BINS)
    return rate_dip(rate, watched, expected, available=float(left))


def _let_pass(stage: Stage, seconds: float) -> None:
    """Let the group work for a while; the time itself is what the measurement needs."""
    over_at = time.monotonic() + seconds
    stage.await_true(
        lambda: time.monotonic() >= over_at, "time to pass", within_seconds=seconds + 5
    )


def _list(values: list[float], digits: int) -> str:
    return ", ".join(f"{value:,.{digits}f}" for value in values)
