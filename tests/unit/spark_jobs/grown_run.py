"""A clean synthetic run whose topic grows at half time, and the truth about its moved keys."""

from __future__ import annotations

import msgspec
import numpy as np
from tests.unit.spark_jobs.synthetic_run import (
    MILLISECOND,
    STREAM_STARTED_AT,
    Rows,
    SyntheticRun,
    assigned,
    clean_run,
)

from lagbench.core.telemetry.records_of_programs import OffsetsCommitted, StreamStarted

SECONDS = 10.0
GROWS_NS = 5_000_000_000
FIRST, GROWN = 6, 12
NEW_POD = "pod-d"


def grown_run() -> SyntheticRun:
    """Return a clean run that goes from 6 to 12 partitions; pod-d does all work on the new ones."""
    run = clean_run(partitions=FIRST, seconds=SECONDS)
    for rows in (run.messages, run.work):
        is_later = rows["planned_offset_ns"] >= GROWS_NS
        rows["partition"] = np.where(is_later, rows["entity_id"] % GROWN, rows["partition"])
    offset_of = _number(run.messages)
    run.work["offset"] = offset_of[run.work["seq"]]
    is_new = run.work["partition"] >= FIRST
    run.work["pod"] = np.where(is_new, NEW_POD, run.work["pod"])
    # The new owner takes partitions over at half time, but is as fast as any with new ones.
    planned_at = STREAM_STARTED_AT + run.work["planned_offset_ns"]
    start = np.where(is_new, planned_at + 2 * MILLISECOND, run.work["started_at"])
    run.work["done_at"] += start - run.work["started_at"]
    run.work["started_at"] = start
    run.partitions = GROWN
    run.committed = dict(run.end_offsets())
    run.telemetry = [
        msgspec.structs.replace(record, partitions=FIRST)
        if isinstance(record, StreamStarted)
        else record
        for record in run.telemetry
        if not isinstance(record, OffsetsCommitted)
    ]
    new = list(range(FIRST, GROWN))
    run.telemetry.append(assigned(STREAM_STARTED_AT + GROWS_NS - MILLISECOND, NEW_POD, new, new))
    return run


def hold_up(run: SyntheticRun, partition: int, *, from_ns: int, by_ns: int) -> None:
    """Let everything that is planned from an instant on in one partition be done later."""
    is_held = (run.work["partition"] == partition) & (run.work["planned_offset_ns"] >= from_ns)
    for name in ("started_at", "done_at"):
        run.work[name] += np.where(is_held, by_ns, 0)


def moved(run: SyntheticRun) -> dict[int, list[int]]:
    """Return the partitions of each key that has messages in two, in order of seq."""
    found: dict[int, list[int]] = {}
    for row in np.sort(run.messages, order="seq"):
        stays = found.setdefault(int(row["entity_id"]), [])
        if int(row["partition"]) not in stays:
            stays.append(int(row["partition"]))
    return {key: stays for key, stays in found.items() if len(stays) > 1}


def overtaken_seqs(run: SyntheticRun) -> set[int]:
    """Return the seqs begun after a later message of their key in another partition had begun."""
    keys = moved(run)
    found = set()
    for key in keys:
        rows = run.work[run.work["entity_id"] == key]
        for row in rows:
            beside = rows[(rows["seq"] > row["seq"]) & (rows["partition"] != row["partition"])]
            if (beside["started_at"] < row["started_at"]).any():
                found.add(int(row["seq"]))
    return found


def _number(messages: Rows) -> np.ndarray:
    """Write the offsets anew, in order of seq; return them by seq."""
    for partition in np.unique(messages["partition"]):
        mine = messages["partition"] == partition
        messages["offset"][mine] = np.arange(int(mine.sum()))
    return np.asarray(messages["offset"][np.argsort(messages["seq"])])
