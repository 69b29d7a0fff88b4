"""Find the places in a run that may be wrong, from its summaries: only they are read closely."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lagbench.core.ownership import (
    Epoch,
    Hole,
    Rival,
    RunFacts,
    Span,
    clock_of,
    most_error_ns,
    rivals_of,
    unknown_work,
)
from lagbench_spark.fence import Fence
from lagbench_spark.rows import Ints
from lagbench_spark.summaries import Tables, expected_seqs
from lagbench_spark.totals import LogPart
from lagbench_spark.transforms.work_runs import WORK_RUNS

_OWNER = ("partition", "pod", "epoch")


@dataclass(frozen=True, slots=True)
class Ownership:
    """Spans and rivals, and the runs that end after a rival began, as rows of their tables."""

    spans: Sequence[Span]
    rivals: Sequence[Rival]
    overdue: pa.Table


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The places where a class may occur; None: that class is ruled out."""

    identity: pa.Table | None
    seqs: pa.Table | None
    repeats: pa.Table | None
    disorder: pa.Table | None
    ownership: Ownership | None
    slack_ns: int
    unbounded_pods: list[str]
    unknown_ownership: list[Hole]
    produced: int
    log: dict[int, LogPart]
    processed_by_pod: Mapping[str, int]


def suspect(
    events: Tables, work: Tables, facts: RunFacts, fence: Fence, spans: Sequence[Span]
) -> Suspicion:
    """Return the suspicion."""
    # Without the producer's final report as many as the log has: a hole among them is noticed.
    produced = fence.messages if facts.produced is None else facts.produced
    runs = work.get("runs", WORK_RUNS.empty_table())
    dated = with_epochs(runs, spans)
    epochs = epochs_of(dated)
    by_pod: Counter[str] = Counter()
    for epoch in epochs:
        by_pod[epoch.pod] += epoch.processed
    slack_ns = most_error_ns(by_pod, facts.clocks)
    reports = fence.accounting is None  # the pods report what they own
    identity = _differing(events.get("logged"), work.get("processed"), ["partition", "block"])
    return Suspicion(
        identity=identity if fence.has_work else None,
        seqs=_differing(events.get("seqs"), expected_seqs(produced), ["block"]),
        repeats=_some(overlaps(runs)),
        disorder=_some(disorder(runs, slack_ns)),
        ownership=_ownership(dated, epochs, facts, spans) if reports else None,
        slack_ns=slack_ns,
        unbounded_pods=sorted(pod for pod in by_pod if clock_of(pod, facts.clocks) is None),
        unknown_ownership=unknown_work(epochs, facts.holdings.holes) if reports else [],
        produced=produced,
        log=_log_parts(events),
        processed_by_pod=by_pod,
    )


def _differing(left: pa.Table | None, right: pa.Table | None, keys: list[str]) -> pa.Table | None:
    """Return the keys of blocks that do not hold the same messages on both sides."""
    signed = []
    for side, sign in ((left, 1), (right, -1)):
        if side is not None:
            signs = {name: pc.multiply(side[name], sign) for name in ("count", "hash")}
            signed.append(pa.table({**{key: side[key] for key in keys}, **signs}))
    if not signed:
        return None
    both = pa.concat_tables(signed, promote_options="permissive")
    sums = both.group_by(keys).aggregate([("count", "sum"), ("hash", "sum")])
    differs = pc.or_(pc.not_equal(sums["count_sum"], 0), pc.not_equal(sums["hash_sum"], 0))
    return _some(sums.filter(differs).select(keys))


def _log_parts(events: Tables) -> dict[int, LogPart]:
    if "logged" not in events:
        return {}
    parts = events["logged"].group_by(["partition"])
    rows = parts.aggregate([("count", "sum"), ("first", "min")]).to_pylist()
    return {row["partition"]: LogPart(row["count_sum"], row["first_min"]) for row in rows}


def overlaps(runs: pa.Table) -> pa.Table:
    """Return partition, from_offset, to_offset: every offset that two of ``WORK_RUNS`` share.

    In the order of first offsets, a run shares with an earlier one all offsets up to the furthest
    so far.
    """
    runs = _sorted(runs, "partition", "first_offset")
    furthest, is_first = _most_before(runs, "last_offset")
    first, last = _ints(runs, "first_offset"), _ints(runs, "last_offset")
    columns = {
        "partition": runs["partition"],
        "from_offset": first,
        "to_offset": np.minimum(furthest, last),
    }
    return pa.table(columns).filter(pa.array(~is_first & (furthest >= first)))


def disorder(runs: pa.Table, slack_ns: int) -> pa.Table:
    """Return the rows of ``WORK_RUNS`` where the order may be broken, with the earlier extremes.

    A late message and one that overtook it are both in one region: of offsets
    (the run begins below ``furthest``, which was begun before it) or of time (the run begins
    before ``latest``, the last start in earlier runs, plus the bound of two clocks).
    """
    runs = _sorted(runs, "partition", "first_started_at", "first_offset")
    furthest, is_first = _most_before(runs, "last_offset")
    latest = _most_before(runs, "last_started_at")[0] + slack_ns
    is_behind = furthest >= _ints(runs, "first_offset")
    is_parallel = latest > _ints(runs, "first_started_at")
    seen = runs.select(["partition", "first_offset", "first_started_at"])
    seen = seen.append_column("furthest", pa.array(furthest))
    seen = seen.append_column("latest", pa.array(latest))
    return seen.filter(pa.array(~is_first & (is_behind | is_parallel)))


def with_epochs(runs: pa.Table, spans: Sequence[Span]) -> pa.Table:
    """Add epoch, is_reported, is_known and first_work_at to ``WORK_RUNS``.

    An epoch is the span that holds the run's first start, else the member's first work outside all
    spans, ``first_work_at`` (null: all its work is in spans).
    """
    of_owner: dict[tuple[int, str], list[Span]] = defaultdict(list)
    for span in spans:
        of_owner[span.partition, span.pod].append(span)
    starts = {owner: [span.from_at for span in found] for owner, found in of_owner.items()}
    owners = zip(runs["partition"].to_pylist(), runs["pod"].to_pylist(), strict=True)
    members, begun = runs["member_id"].to_pylist(), runs["first_started_at"].to_pylist()
    within: list[Span | None] = []
    outside: dict[tuple[int, str, str], int] = {}
    keys = []
    for owner, member, at in zip(owners, members, begun, strict=True):
        place = int(np.searchsorted(starts.get(owner, ()), at, side="right")) - 1
        span = of_owner[owner][place] if place >= 0 else None
        if span is not None and span.until_at is not None and at >= span.until_at:
            span = None
        within.append(span)
        keys.append((*owner, member))
        if span is None:
            outside[keys[-1]] = min(at, outside.get(keys[-1], at))
    first_work = [outside.get(key) for key in keys]
    epochs = [
        first if span is None else span.from_at
        for span, first in zip(within, first_work, strict=True)
    ]
    added = {
        "epoch": pa.array(epochs, pa.int64()),
        "is_reported": pa.array([span is not None for span in within], pa.bool_()),
        "is_known": pa.array([span is None or span.is_known for span in within], pa.bool_()),
        "first_work_at": pa.array(first_work, pa.int64()),
    }
    for name, values in added.items():
        runs = runs.append_column(name, values)
    return runs


def epochs_of(dated: pa.Table) -> list[Epoch]:
    """Return the epochs of runs ``with_epochs``."""
    counted = dated.append_column(
        "processed", pc.add(pc.subtract(dated["last_offset"], dated["first_offset"]), 1)
    )
    keys = [*_OWNER, "is_reported", "is_known"]
    found = counted.group_by(keys).aggregate([("first_started_at", "min"), ("processed", "sum")])
    return [
        Epoch(
            row["partition"],
            row["pod"],
            row["epoch"],
            row["first_started_at_min"],
            row["processed_sum"],
            row["is_reported"],
            row["is_known"],
        )
        for row in found.to_pylist()
    ]


def _ownership(
    dated: pa.Table, epochs: Sequence[Epoch], facts: RunFacts, spans: Sequence[Span]
) -> Ownership | None:
    """Return what may have been done after a later owner had begun; None: nothing."""
    rivals = rivals_of(epochs, spans, facts.holdings, facts.clocks)
    of_epoch = {(rival.partition, rival.pod, rival.epoch): rival for rival in rivals}
    owners = zip(*(dated[name].to_pylist() for name in _OWNER), strict=True)
    ends = zip(dated["last_done_at"].to_pylist(), dated["is_known"].to_pylist(), strict=True)
    is_overdue = []
    for owner, (done_at, is_known) in zip(owners, ends, strict=True):
        rival = of_epoch.get(owner) if is_known else None
        is_overdue.append(
            rival is not None and done_at - rival.next_began_at > -(rival.error_ns or 0)
        )
    overdue = _some(dated.filter(pa.array(is_overdue, pa.bool_())))
    return None if overdue is None else Ownership(spans, rivals, overdue)


def _some(table: pa.Table) -> pa.Table | None:
    return table if table.num_rows else None


def _sorted(table: pa.Table, *names: str) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in names])


def _ints(table: pa.Table, name: str) -> Ints:
    found: Ints = table[name].to_numpy()
    return found


def _most_before(table: pa.Table, name: str) -> tuple[Ints, np.ndarray]:
    """Return the largest value in earlier rows of the same partition, and which rows have none.

    The table is sorted by partition.
    """
    values, partition = _ints(table, name), _ints(table, "partition")
    is_first = np.ones(len(values), bool)
    is_first[1:] = np.diff(partition) != 0
    most = np.zeros(len(values), np.int64)
    firsts = np.flatnonzero(is_first)
    for first, end in zip(firsts, [*firsts, len(values)][1:], strict=True):
        most[first + 1 : end] = np.maximum.accumulate(values[first : end - 1])
    return most, is_first
