"""Faults put into a clean synthetic run; each names exactly what the accounting must find."""

from __future__ import annotations

import numpy as np
from tests.unit.spark_jobs.synthetic_run import (
    MILLISECOND,
    STREAM_STARTED_AT,
    Rows,
    SyntheticRun,
    assigned,
    revoked,
)

from lagbench.core.telemetry.records_of_programs import (
    OffsetsCommitted,
    SigtermReceived,
    StreamFinished,
)
from lagbench.core.telemetry.records_of_recorder import ClockOffset, PodSeen

# pod-c takes partition 2 over from pod-a at half time, and leaves partition 0 alone.
HANDED_OVER, KEPT = 2, 0
_OWNED = [KEPT, HANDED_OVER, 4]  # by pod-a, once it has the partition back


def drop_one(run: SyntheticRun) -> None:
    """Forget one processing."""
    run.work = np.delete(run.work, _rows_of(run, KEPT)[50])


def give_up_three_and_do_one_of_them_again(run: SyntheticRun) -> None:
    """Let three messages fail; one of them is given up a second time, later."""
    rows = _rows_of(run, KEPT)[50:53]
    run.work["failed_attempts"][rows] = 3
    _append(run, _later(run.work[rows[:1]], 20 * MILLISECOND))


def swap_two_starts(run: SyntheticRun) -> None:
    """Begin two neighbours in the wrong order."""
    first, second = _rows_of(run, KEPT)[50:52]
    for name in ("started_at", "done_at"):
        run.work[name][[first, second]] = run.work[name][[second, first]]


def lose_one_repeat_another_and_swap_two(run: SyntheticRun) -> None:
    """Keep the count right and the identities wrong; begin two neighbours in the wrong order."""
    again = _later(run.work[_rows_of(run, KEPT)[80:81]], 20 * MILLISECOND)
    drop_one(run)
    swap_two_starts(run)
    _append(run, again)


def move_to_another_partition(run: SyntheticRun) -> None:
    """Record one processing under another partition."""
    row = _rows_of(run, KEPT)[50]
    run.work["partition"][row] = 4  # of pod-a as well


def exchange_two_seqs(run: SyntheticRun) -> None:
    """Record two processings under each other's seq."""
    first, second = _rows_of(run, KEPT)[50:52]
    run.work["seq"][[first, second]] = run.work["seq"][[second, first]]


def finish_after_the_next_owner_began(run: SyntheticRun) -> None:
    """Let the last message of the former owner end too late."""
    row = _rows_of(run, HANDED_OVER, "pod-a")[-1]
    heirs = _rows_of(run, HANDED_OVER, "pod-c")
    run.work["done_at"][row] = run.work["started_at"][heirs[0]] + MILLISECOND


def work_between_the_next_owners_work(run: SyntheticRun) -> None:
    """Let the former owner repeat a message long after the handover, in a pause of the heir."""
    heirs = _rows_of(run, HANDED_OVER, "pod-c")
    again = run.work[heirs[40:41]].copy()
    again["pod"] = "pod-a"
    _append(run, _later(again, 5 * MILLISECOND))


def leave_the_tail_uncommitted(run: SyntheticRun) -> None:
    """Stop before the last ten messages of a partition."""
    run.work = np.delete(run.work, _rows_of(run, KEPT)[-10:])
    run.committed[KEPT] = run.end_offsets()[KEPT] - 10


def commit_nothing_and_drop_one(run: SyntheticRun) -> None:
    """Drop one processing of a partition without a committed offset."""
    drop_one(run)
    run.committed[KEPT] = None


def write_one_seq_twice(run: SyntheticRun) -> None:
    """Append a message of the log to it again and process it there."""
    again = run.messages[run.messages["partition"] == KEPT][-1:].copy()
    again["offset"] += 1
    run.messages = np.concatenate([run.messages, again])
    work = _later(run.work[_rows_of(run, KEPT)[-1:]], 10 * MILLISECOND)
    work["offset"] += 1
    _append(run, work)
    run.committed[KEPT] = int(again["offset"][0]) + 1


def drop_from_the_log(run: SyntheticRun) -> None:
    """Lose an acknowledged message before it was read: the log's last of a partition."""
    last = np.flatnonzero(run.messages["partition"] == KEPT)[-1]
    run.messages = np.delete(run.messages, last)
    run.work = np.delete(run.work, _rows_of(run, KEPT)[-1])
    run.committed[KEPT] = run.end_offsets()[KEPT]


def replay_at_the_handover(run: SyntheticRun) -> None:
    """Let the heir begin with the former owner's last twenty messages."""
    _replay(run, rows=20)


def give_the_partition_back(run: SyntheticRun) -> None:
    """Give the partition back to its first owner, properly: no fault at all."""
    begun_at = _give_back(run, rows=100)
    run.telemetry.append(revoked(begun_at - 600, "pod-c", [HANDED_OVER], []))
    run.telemetry.append(assigned(begun_at - 500, "pod-a", [HANDED_OVER], _OWNED, number=3))


def give_the_partition_back_unheard(run: SyntheticRun) -> None:
    """Lose the record of the assignment by which pod-a gets the partition back."""
    begun_at = _give_back(run, rows=100)
    end_at = int(run.work["done_at"].max())
    run.telemetry.append(revoked(begun_at - 600, "pod-c", [HANDED_OVER], []))
    run.telemetry.append(revoked(end_at, "pod-a", [HANDED_OVER], [KEPT, 4], number=4))


def finish_after_the_former_owner_came_back(run: SyntheticRun) -> None:
    """Stall pod-c with 20 messages; pod-a does them instead, and pod-c finishes them after all.

    The first of the twenty pod-c still ends before pod-a begins: 19 are those of a former owner.
    """
    begun_at = _give_back(run, rows=100)
    rows = _rows_of(run, HANDED_OVER, "pod-a")
    again = run.work[[row for row in rows if run.work["started_at"][row] >= begun_at][:20]].copy()
    again["pod"] = "pod-c"
    again["started_at"] = begun_at - 20_000 + 1000 * np.arange(20)
    again["done_at"] = begun_at + 30 * MILLISECOND
    again["done_at"][0] = begun_at - 100
    _append(run, again)
    run.telemetry.append(assigned(begun_at - 500, "pod-a", [HANDED_OVER], _OWNED, number=3))


def sign_one_row_by_another_pod(run: SyntheticRun) -> None:
    """Have one row of the ledger name a pod that never owned the partition."""
    run.work["pod"][_rows_of(run, KEPT)[50]] = "pod-c"


def add_strangers_of_other_sizes(run: SyntheticRun) -> None:
    """Append six records of another size to the log; the consumers skip them and commit past."""
    _add_to_log(run, 6, seq=-1, planned_offset_ns=0)


def add_strangers_of_the_same_size(run: SyntheticRun) -> None:
    """Append six records with seqs that nobody produced, planned in another century, and do them.

    The consumers cannot tell them from events.
    """
    strangers = _add_to_log(run, 6, seq=70_000, planned_offset_ns=2**62)
    work = np.zeros(6, run.work.dtype)
    for name in strangers.dtype.names or ():
        work[name] = strangers[name]
    work["pod"] = "pod-a"
    work["planned_offset_ns"] = 0
    work["started_at"] = int(run.work["started_at"].max()) + 1000 * np.arange(6)
    work["done_at"] = work["started_at"] + MILLISECOND
    _append(run, work)


def stamp_one_row_in_another_century(run: SyntheticRun) -> None:
    """Garble the stamps of one row of the ledger."""
    row = _rows_of(run, KEPT)[-1]
    for name in ("started_at", "done_at"):
        run.work[name][row] = 2**62


def lose_ten_that_were_acknowledged(run: SyntheticRun) -> None:
    """Let ten deliveries fail that are in the log, and ten be acknowledged that are not."""
    _lose_last(run, 10)
    _report_failed(run, [(0, 9)])


def lose_ten_that_failed(run: SyntheticRun) -> None:
    """Let ten deliveries fail, and the log be without the same ten."""
    seqs = sorted(_lose_last(run, 10))
    _report_failed(run, [(seq, seq) for seq in seqs])


def lose_ten_of_ten_failures_without_names(run: SyntheticRun) -> None:
    """Let ten deliveries fail and ten seqs be absent, without telling which failed."""
    _lose_last(run, 10)
    _report_failed(run, None)


def set_the_next_owner_behind(run: SyntheticRun) -> None:
    """Let the clock of pod-c's node be half a second behind; the handover itself is clean."""
    _shift_clock(run, "pod-c", -500 * MILLISECOND)
    _report_clocks(run, {"pod-a": 0, "pod-b": 0, "pod-c": -500 * MILLISECOND})


def set_the_next_owner_behind_unasked(run: SyntheticRun) -> None:
    """As above, but nobody could ask any clock."""
    _shift_clock(run, "pod-c", -500 * MILLISECOND)
    run.fidelity = "kubernetes"


def hide_zombies_by_a_clock_ahead(run: SyntheticRun) -> None:
    """Let pod-a do 20 messages after pod-c has begun, whose clock is half a second ahead."""
    run.work["pod"][_rows_of(run, HANDED_OVER, "pod-c")[1:21]] = "pod-a"
    _shift_clock(run, "pod-c", 500 * MILLISECOND)
    _report_clocks(run, {"pod-a": 0, "pod-b": 0, "pod-c": 500 * MILLISECOND})


def put_the_producers_clock_ahead(run: SyntheticRun, by_ns: int) -> None:
    """Bound the clocks: the stream was planned that much earlier than the producer's stamps say."""
    _report_clocks(run, {"pod-a": 0, "pod-b": 0, "pod-c": 0, "producer": by_ns})


def leave_one_of_a_key_to_the_next_owner(run: SyntheticRun) -> None:
    """Let the heir begin with a message whose key has a later one done by the former owner."""
    rows = _rows_of(run, HANDED_OVER, "pod-a")
    skipped, later = rows[-5], rows[-2]
    key = run.work["entity_id"][later]
    is_skipped = run.messages["seq"] == run.work["seq"][skipped]
    run.messages["entity_id"][is_skipped] = key
    run.work["entity_id"][skipped] = key
    run.work["pod"][skipped] = "pod-c"
    first = _rows_of(run, HANDED_OVER, "pod-c")
    begun_at = run.work["started_at"][first].max(initial=0)
    heirs = [row for row in first if row != skipped]
    begun_at = run.work["started_at"][heirs].min()
    run.work["started_at"][skipped] = begun_at - 1000
    run.work["done_at"][skipped] = begun_at


def lose_and_repeat(
    run: SyntheticRun, count: int, generator: np.random.Generator
) -> tuple[set[int], set[int]]:
    """Lose ``count`` messages and repeat as many others; return the seqs of both."""
    chosen = generator.choice(len(run.work), 2 * count, replace=False)
    lost, repeated = chosen[:count], chosen[count:]
    seqs = set(run.work["seq"][lost].tolist()), set(run.work["seq"][repeated].tolist())
    again = _later(run.work[repeated], MILLISECOND)
    run.work = np.delete(run.work, lost)
    _append(run, again)
    return seqs


def kill_at_the_handover(run: SyntheticRun, pod: str, rows: int) -> None:
    """Kill the former owner; the heir repeats its last ``rows`` messages."""
    kill_pod(run, pod, _replay(run, rows) - 2 * MILLISECOND)


def kill_pod(run: SyntheticRun, pod: str, killed_at: int) -> None:
    """Record that the pod was killed."""
    run.telemetry.append(
        PodSeen(
            at=killed_at + 500 * MILLISECOND,
            source="recorder",
            pod=pod,
            created_at=0,
            started_at=0,
            ready_at=0,
            deleted_at=None,
            gone_at=killed_at,
            exit_code=137,
            exit_reason="Error",
            precision_ns=1,
        )
    )


def commit_ahead_then_sigterm(run: SyntheticRun, rows: int) -> None:
    """Commit the queue of the former owner before its work, then end the pod."""
    lost = _rows_of(run, HANDED_OVER, "pod-a")[-rows:]
    at = int(run.work["started_at"][lost[0]])
    run.telemetry.append(
        OffsetsCommitted(
            at=at,
            source="pod-a",
            member_id="member-pod-a",
            offsets={str(HANDED_OVER): int(run.work["offset"][lost[-1]]) + 1},
            cause="auto",
        )
    )
    run.telemetry.append(SigtermReceived(at=at + 1000, source="pod-a", queued=rows, in_flight=0))
    run.work = np.delete(run.work, lost)


def _give_back(run: SyntheticRun, rows: int) -> int:
    """Let pod-a do all but the first ``rows`` of pod-c's messages; return when it begins."""
    returned = _rows_of(run, HANDED_OVER, "pod-c")[rows:]
    run.work["pod"][returned] = "pod-a"
    return int(run.work["started_at"][returned[0]])


def _add_to_log(run: SyntheticRun, count: int, *, seq: int, planned_offset_ns: int) -> Rows:
    end = run.end_offsets()[KEPT]
    strangers = np.zeros(count, run.messages.dtype)
    strangers["partition"], strangers["offset"] = KEPT, end + np.arange(count)
    strangers["seq"] = seq if seq < 0 else seq + np.arange(count)
    strangers["planned_offset_ns"] = planned_offset_ns
    run.messages = np.concatenate([run.messages, strangers])
    run.committed[KEPT] = end + count
    return strangers


def _lose_last(run: SyntheticRun, count: int) -> list[int]:
    """Take the last messages of a partition out of log and ledger; return their seqs."""
    last = np.flatnonzero(run.messages["partition"] == KEPT)[-count:]
    seqs: list[int] = run.messages["seq"][last].tolist()
    run.messages = np.delete(run.messages, last)
    run.work = np.delete(run.work, _rows_of(run, KEPT)[-count:])
    run.committed[KEPT] = run.end_offsets()[KEPT]
    return seqs


def _report_failed(run: SyntheticRun, seqs: list[tuple[int, int]] | None) -> None:
    (finished,) = (record for record in run.telemetry if isinstance(record, StreamFinished))
    finished.acked, finished.failed, finished.failed_seqs = finished.acked - 10, 10, seqs


def _shift_clock(run: SyntheticRun, pod: str, by_ns: int) -> None:
    is_its = run.work["pod"] == pod
    for name in ("started_at", "done_at"):
        run.work[name][is_its] += by_ns
    for record in run.telemetry:
        if record.source == pod:
            record.at += by_ns


def _report_clocks(run: SyntheticRun, offsets: dict[str, int]) -> None:
    """Have the recorder bound each pod's clock to a millisecond."""
    run.fidelity = "kubernetes"
    run.telemetry += [
        ClockOffset(
            at=STREAM_STARTED_AT,
            source="recorder",
            clock=f"node of {pod}",
            pods=[pod],
            low_ns=offset - MILLISECOND,
            high_ns=offset + MILLISECOND,
            answers=9,
            since_at=STREAM_STARTED_AT,
        )
        for pod, offset in offsets.items()
    ]


def _replay(run: SyntheticRun, rows: int) -> int:
    """Let the heir of the partition first repeat ``rows`` messages; return when it begins."""
    again = run.work[_rows_of(run, HANDED_OVER, "pod-a")[-rows:]].copy()
    begun_at = int(run.work["started_at"][_rows_of(run, HANDED_OVER, "pod-c")[0]])
    again["pod"] = "pod-c"
    again["started_at"] = begun_at - 1000 * (rows - np.arange(rows))
    again["done_at"] = again["started_at"] + 500
    _append(run, again)
    return begun_at - 1000 * rows


def _rows_of(run: SyntheticRun, partition: int, pod: str | None = None) -> list[int]:
    is_meant = run.work["partition"] == partition
    if pod is not None:
        is_meant &= run.work["pod"] == pod
    return [int(row) for row in np.flatnonzero(is_meant)]


def _later(rows: Rows, by_ns: int) -> Rows:
    moved: Rows = rows.copy()
    moved["started_at"] += by_ns
    moved["done_at"] += by_ns
    return moved


def _append(run: SyntheticRun, rows: Rows) -> None:
    run.work = np.concatenate([run.work, rows])
