"""Readings, groups, ledgers and clocks that cannot be right: they blame no policy."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fakes.tampered_run import SECOND, Row, TamperedRun, drop_lag, set_lag, slo

PARTITIONS = 4


def outcome(run: TamperedRun) -> tuple[str, set[str]]:
    """Return the run's status, and the codes of the doubts about it."""
    return run.judge().status, {doubt.code for doubt in run.measure().doubts}


def standing(run: TamperedRun, from_seconds: float, until_seconds: float) -> None:
    """Let the recorder read the same offsets in [from_seconds, until_seconds)."""
    kept: dict[int, Row] = {}

    def edit(row: Row) -> Row:
        if run.seconds(row["at"]) < from_seconds:
            kept[row["partition"]] = row
        elif run.seconds(row["at"]) < until_seconds:
            return {**kept[row["partition"]], "at": row["at"]}
        return row

    rows = sorted(run.rows("lag"), key=lambda row: row["at"])
    run.write_rows("lag", [edit(row) for row in rows])
    samples: list[Row] = []

    def in_record(record: Row) -> Row:
        if run.seconds(record["at"]) < from_seconds:
            samples.append(record)
        elif run.seconds(record["at"]) < until_seconds:
            return {**record, "partitions": samples[-1]["partitions"]}
        return record

    run.edit_records(in_record, "lag_sample")


def test_readings_that_stand_still_are_missing(run: TamperedRun) -> None:
    """Offsets from a cache for 20 s after the spike, while the pods' commits went on."""
    run.set_slos(drain_seconds=15)
    assert run.judge().status == "pass"
    standing(run, 17, 37)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert slo(verdict, "drain_seconds").status == "undetermined"
    (gap,) = [note for note in verdict.notes if "stale" in note]
    assert "from +17" in gap


def test_a_topic_that_was_made_again_proves_nothing(run: TamperedRun) -> None:
    """Its offsets begin at 0 again at +30 s."""

    def edit(row: Row) -> Row:
        if run.seconds(row["at"]) < 30:
            return row
        return {**row, "end_offset": row["end_offset"] // 10, "committed": row["committed"] // 10}

    run.edit_rows("lag", edit)
    run.drop_records("lag_sample")

    status, codes = outcome(run)
    assert (status, codes) == ("undetermined", {"fallen_offsets"})
    assert slo(run.judge(), "lost").status == "undetermined"


def test_an_end_offset_that_is_back_at_once_is_a_wrong_reading(run: TamperedRun) -> None:
    """A new leader knew of half of the records for one second; the sample is left out."""
    instants = sorted({row["at"] for row in run.rows("lag")})
    one = next(at for at in instants if run.seconds(at) > 30)

    def edit(row: Row) -> Row:
        return {**row, "end_offset": row["end_offset"] // 2} if row["at"] == one else row

    run.edit_rows("lag", edit)
    run.edit_records(lambda r: None if r["at"] == one else r, "lag_sample")

    assert outcome(run) == ("pass", set())


def test_samples_behind_the_pods_are_stale(run: TamperedRun) -> None:
    """The API server answers for 20 s with the replicas of before the scale-up."""

    def edit(record: Row) -> Row:
        is_old = 9.8 < run.seconds(record["at"]) < 32
        return {**record, "current": 1, "ready": 1} if is_old else record

    run.edit_records(edit, "replica_sample")

    assert outcome(run) == ("undetermined", {"stale_replicas"})


def test_stamps_that_are_an_hour_off_are_no_reaction(run: TamperedRun) -> None:
    """The API server's clock is an hour ahead of the recorder's, and nobody asked it."""
    hour = 3600 * SECOND

    def edit(record: Row) -> Row:
        stamps = ("created_at", "ready_at", "started_at", "deleted_at")
        return {**record, **{name: record[name] and record[name] + hour for name in stamps}}

    run.edit_records(edit, "pod_seen")

    status, codes = outcome(run)
    assert (status, "stamps_apart" in codes) == ("undetermined", True)


def members(run: TamperedRun, at_seconds: float, *owned: tuple[str, list[int]]) -> Row:
    """Return a reading of the stable group: client ids with their partitions."""
    state = {"state": "stable", "members": len(owned), "members_without_partitions": 0}
    source = run.records("lag_sample")[0]["source"]
    found = [
        {"member_id": f"m-{pod}", "client_id": pod, "host": "/127.0.0.1", "partitions": partitions}
        for pod, partitions in owned
    ]
    of = {"at": run.at(at_seconds), "source": source}
    run.add_records({**of, "kind": "group_sample", **state})
    return {**of, "kind": "group_members", "members": found}


def pods_at(run: TamperedRun, at_seconds: float) -> dict[str, list[int]]:
    """Return the pods' own partitions at an instant."""
    owned: dict[str, list[int]] = {}
    for record in run.records("partitions_assigned", "partitions_revoked"):
        if run.seconds(record["at"]) <= at_seconds:
            owned[record["source"]] = record["owned"]
    return {pod: partitions for pod, partitions in owned.items() if partitions}


def test_two_owners_of_one_partition_are_named(run: TamperedRun) -> None:
    """The broker describes it so in one reading."""
    first, second, *rest = pods_at(run, 30).items()
    both = (second[0], [*second[1], *first[1]])
    run.drop_records("group_members", from_seconds=29, until_seconds=31)
    run.add_records(members(run, 30, first, both, *rest))

    assert outcome(run) == ("undetermined", {"two_owners"})


def test_other_owners_than_the_pods_report_are_named(run: TamperedRun) -> None:
    """Two pods with each other's partitions for 14 s; for a second it is a rebalance."""
    first, second, *rest = pods_at(run, 30).items()
    swapped = ((first[0], second[1]), (second[0], first[1]), *rest)
    right = members(run, 23, *pods_at(run, 30).items())
    run.add_records(members(run, 22, *swapped), right)
    assert outcome(run) == ("pass", set())

    run.drop_records("group_members", from_seconds=24, until_seconds=42)
    run.add_records(*(members(run, second, *swapped) for second in (24, 30, 38)))
    assert outcome(run) == ("undetermined", {"other_owners"})


@pytest.mark.parametrize("change", ["hole", "twice"])
def test_a_ledger_that_is_not_whole_blames_nobody(run: TamperedRun, change: str) -> None:
    """A batch of its own offsets is missing, or a file of it landed twice."""
    path = run.folder.table("processed")
    rows = pa.concat_tables([pq.ParquetFile(part).read() for part in path.glob("*.parquet")])
    if change == "twice":
        pq.write_table(rows.slice(0, 100), path / "part-again.parquet")
        run.set_accounting(duplicated=100, processed_records=rows.num_rows + 100)
    else:
        first = rows.column("ledger_offset").to_pylist()[0]
        run.edit_rows("processed", lambda row: None if row["ledger_offset"] == first else row)
        fewer = sum(offset == first for offset in rows.column("ledger_offset").to_pylist())
        left = rows.num_rows - fewer
        run.set_accounting(lost=fewer, processed_records=left, processed_distinct=left)

    status, codes = outcome(run)

    assert (status, "ledger_holes" in codes) == ("undetermined", True)


def test_a_pod_that_counted_more_than_its_rows_shows_a_hole(run: TamperedRun) -> None:
    """It ended in order; nobody lost what the ledger lacks."""
    run.edit_records(lambda r: {**r, "processed_total": r["processed_total"] + 7}, "pod_stopped")

    assert outcome(run) == ("undetermined", {"pods_totals"})


@pytest.mark.parametrize("name", ["events", "committed"])
def test_a_fence_that_lacks_a_partition_is_none(run: TamperedRun, name: str) -> None:
    """Nothing is known of what its log held, or of what was committed."""

    def edit(fence: Row) -> Row:
        return {**fence, name: {p: at for p, at in fence[name].items() if p != "2"}}

    run.edit_json("fence.json", edit)

    status, codes = outcome(run)
    assert (status, "incomplete_fence" in codes) == ("undetermined", True)


@pytest.mark.parametrize("off", [-30, 30])
def test_a_pod_with_a_clock_of_its_own_is_found(run: TamperedRun, off: int) -> None:
    """It worked 30 s before it was created, or after it was gone."""
    pod = run.records("pod_started")[-1]["source"]

    def edit(record: Row) -> Row:
        return {**record, "at": record["at"] + off * SECOND} if record["source"] == pod else record

    run.edit_records(edit)

    status, codes = outcome(run)
    assert (status, "pod_clock" in codes) == ("undetermined", True)


def test_another_skew_than_the_planned_one_is_another_load(run: TamperedRun) -> None:
    """The log holds what keys of a steeper distribution send; the plan's keys are nearly even."""
    counts = run.folder.read_json("accounting.json")["partition_counts"]
    moved = counts["0"] // 4
    run.set_accounting(
        partition_counts={**counts, "0": counts["0"] - moved, "1": counts["1"] + moved}
    )

    verdict = run.judge()

    assert (verdict.status, len(verdict.invalid)) == ("undetermined", 1)
    assert not any(result.status == "pass" for result in verdict.slos)


def test_a_recorder_that_died_after_the_spike_fails_nothing(run: TamperedRun) -> None:
    """Nobody looked whether lag came down within 10 s."""
    set_lag(run, lambda _second, row: row["lag"] or 0)
    drop_lag(run, 18.5, 1e9)
    run.drop_records("lag_sample", from_seconds=18.5)
    run.set_slos(drain_seconds=10)

    assert slo(run.judge(), "drain_seconds").status == "undetermined"


def test_a_drain_in_a_gap_is_as_wide_as_the_gap(run: TamperedRun) -> None:
    """Gap from the spike's end to 12 s after: it was drained in 0 to 12.3 s."""
    drop_lag(run, 18.5, 30)
    run.set_slos(drain_seconds=10)

    found = slo(run.judge(), "drain_seconds")

    assert found.status == "undetermined"
    assert found.low == pytest.approx(0, abs=1)
    assert found.value == pytest.approx(12.3, abs=0.1)


def test_samples_that_know_nothing_are_a_gap(run: TamperedRun) -> None:
    """There are rows, but no total: the drain's precision is the distance to the last known."""
    set_lag(run, lambda second, row: None if 30 < second < 41 else row["lag"])

    assert run.measure().drain.precision_seconds == pytest.approx(12, abs=1)


@pytest.mark.parametrize("added_seconds", [10.0, 35.0])
def test_a_partition_added_in_mid_run_moves_no_earlier_number(
    run: TamperedRun, added_seconds: float
) -> None:
    """Before its first row it held nothing."""
    before = run.measure()
    rows = run.rows("lag")
    instants = sorted({row["at"] for row in rows if run.seconds(row["at"]) >= added_seconds})
    added = [
        {"at": at, "partition": 4, "end_offset": 0, "committed": None, "lag": 0} for at in instants
    ]
    run.write_rows("lag", [*rows, *added])

    after = run.measure()

    assert after.reaction.assigned_seconds == before.reaction.assigned_seconds
    assert after.reaction.links[1] == before.reaction.links[1]
    assert after.lag.peak_records == before.lag.peak_records
    assert after.drain == before.drain


def test_a_partition_without_any_row_leaves_lag_unknown(run: TamperedRun) -> None:
    """It was there when the stream began, so the total without it is no total."""
    run.edit_rows("lag", lambda row: None if row["partition"] == 3 else row)
    run.set_slos(drain_seconds=60)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert slo(verdict, "drain_seconds").status == "undetermined"
