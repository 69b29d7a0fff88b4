"""Compute the waiting and the finished messages of each partition, in bins of 100 ms.

A message waits from IN_FLIGHT_BINS after its planned instant (until then it is on its way to a
consumer) until it is done. A message that is never done although its offset was committed (it is
lost) does not wait, so it is left out from the start.

The accounting counts every message by partition and bin. Without its table the group's totals are
distributed over the partitions by the samples of the lag, once a second and so less exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lagbench.core.measures.evidence.pod_lives import PodLives
from lagbench.core.measures.evidence.series import BIN_NS, LagSeries, RateSeries
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.rebalance.rate_dip import IN_FLIGHT_BINS
from lagbench.core.measures.statistics import Ints

Counts = npt.NDArray[np.int32]
POD_BINS = 10
BY_LAG = "without the table timeline_by_partition partitions are derived from the samples of lag"


@dataclass(frozen=True, slots=True)
class PodRates:
    """Messages that each pod finished in each second (ten bins) of the series."""

    pods: tuple[str, ...]
    done: Counts  # [pod, second]


def rates_by_life(rates: PodRates, lives: PodLives, started_at: int) -> PodRates:
    """Return the rates with a row for each life of a pod; a second belongs to the life at its end.

    :param started_at: the start of the series (unix ns).
    """
    rows: dict[str, Counts] = {}
    for pod, done in zip(rates.pods, rates.done, strict=True):
        ends = [started_at + (second + 1) * NANOSECONDS - 1 for second in range(done.size)]
        owners = np.array([lives.name_at(pod, at) for at in ends], dtype=object)
        for name in lives.names(pod):
            rows[name] = np.where(owners == name, done, 0).astype(done.dtype)
    return PodRates(tuple(rows), np.stack(list(rows.values())) if rows else rates.done)


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """Matrices are [partition, bin]; bins as in the ``RateSeries`` of the run."""

    arrivals: npt.NDArray[np.int32] | npt.NDArray[np.float32]  # begin to wait in the bin
    waiting: npt.NDArray[np.int32] | npt.NDArray[np.float32]  # at the bin's start
    done: Counts | None  # first processings; None: not known by partition
    lost: Ints  # never done though committed, by the bin in which they were planned
    pod_rates: PodRates | None
    message_seconds: float | None  # from started to done, median; None: not recorded
    note: str = ""
    backlog: int = 0  # messages that waited before the first bin


def waiting_after(arrivals: Counts, done: Counts) -> Counts:
    """Return the messages waiting at the start of each bin; never below zero."""
    left = np.cumsum(arrivals.astype(np.int64) - done, axis=-1)
    waiting = np.zeros_like(left)
    waiting[..., 1:] = np.maximum(left[..., :-1], 0)
    return waiting.astype(np.int32)


def delayed(offered: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return when the messages planned in each bin begin to wait."""
    later = np.zeros_like(offered)
    later[..., IN_FLIGHT_BINS:] = offered[..., : offered.shape[-1] - IN_FLIGHT_BINS]
    return later


def group_waiting(rate: RateSeries, lost: Ints, backlog: int = 0) -> Ints:
    """Return the messages waiting in the whole group at each bin's start, by its own rates."""
    arrivals = delayed(rate.offered - lost)
    arrivals[:1] += backlog
    left: Ints = np.cumsum(np.concatenate([[0], arrivals - rate.processed]))[:-1]
    return np.maximum(left, 0)


def work_of_bins(
    offered: Counts,
    done: Counts,
    lost: Counts,
    *,
    pod_rates: PodRates,
    message_seconds: float | None,
) -> PartitionWork:
    """Return the work from what was planned, first done and lost, each [partition, bin]."""
    arrivals = delayed(offered - lost).astype(np.int32)
    return PartitionWork(
        arrivals=arrivals,
        waiting=waiting_after(arrivals, done),
        done=done,
        lost=lost.sum(axis=0, dtype=np.int64),
        pod_rates=pod_rates,
        message_seconds=message_seconds,
    )


def work_by_lag(rate: RateSeries, lag: LagSeries, lost_records: int) -> PartitionWork:
    """Return the group's work, distributed over the partitions by the samples of the lag.

    ``lost_records``: how many messages are known to be lost. The time of the loss is unknown, so
    they are left out from the start: until the loss that many fewer wait than really did.
    """
    size = rate.processed.size
    instants = rate.started_at + np.arange(size, dtype=np.int64) * BIN_NS
    never_done = int(rate.offered.sum() - rate.processed.sum())
    lost = np.zeros(size, dtype=np.int64)
    lost[:1] = min(max(never_done, 0), lost_records)
    waits = group_waiting(rate, lost).astype(np.float64)
    arrivals = delayed(rate.offered).astype(np.float64)
    count = int(lag.partitions.max(initial=0)) + 1
    shares = np.full(count, 1 / count)
    parts = np.tile(shares[:, None], (1, size))
    if lag.at.size:
        ends = np.zeros(count)
        ends[lag.partitions] = np.nan_to_num(lag.end_offsets[-1])
        shares = ends / ends.sum() if ends.sum() > 0 else shares
        # Commits trail the work: messages committed in the next sample no longer waited.
        committed = lag.end_offsets - lag.by_partition
        following = np.concatenate([committed[1:], lag.end_offsets[-1:]])
        known = np.nan_to_num(np.maximum(lag.end_offsets - following, 0))
        lags = np.zeros((count, size))
        for partition, column in zip(lag.partitions.tolist(), known.T, strict=True):
            lags[partition] = np.interp(instants, lag.at, column)
        total = lags.sum(axis=0)
        parts = np.where(total > 0, lags / np.maximum(total, 1e-9), shares[:, None])
    return PartitionWork(
        arrivals=(shares[:, None] * arrivals).astype(np.float32),
        waiting=(parts * waits).astype(np.float32),
        done=None,
        lost=lost,
        pod_rates=None,
        message_seconds=None,
        note=BY_LAG,
    )
