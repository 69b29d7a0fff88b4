"""Run folders whose parts tell of different runs, or of another policy: they never pass."""

from __future__ import annotations

import shutil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fakes.tampered_run import (
    SECOND,
    Damage,
    Row,
    TamperedRun,
    both,
    check,
    dropped,
    edited,
    new_pods,
    records,
    rows,
)

from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import NotReady
from lagbench.results.measure_run import rejudge_run

PASS, FAIL, OPEN = "pass", "fail", "undetermined"


def test_a_folder_that_cannot_be_measured_keeps_no_earlier_verdict(run: TamperedRun) -> None:
    """A table is gone: what an earlier judgement said is not true of this folder."""
    assert run.judge().status == PASS
    shutil.rmtree(run.folder.table("lag"))

    with pytest.raises(NotReady):
        rejudge_run(run.folder)

    verdict = Verdict.model_validate(run.folder.read_json(run.folder.verdict))
    assert verdict.status == OPEN
    assert "no table lag" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("fence.json", {}),
        ("accounting.json", []),
        ("manifest.json", {"run_id": "x"}),
        ("manifest.json", {"run_id": "x", "fidelity": "processes", "folder_format": 1}),
    ],
)
def test_a_file_of_another_shape_is_one_clear_message(
    run: TamperedRun, name: str, content: object
) -> None:
    """No traceback, and no verdict of before; an earlier version's folder is not read."""
    run.edit_json(name, lambda _: content)

    with pytest.raises(
        NotReady, match=r"was not written by lagbench|an earlier version|is not an object"
    ):
        rejudge_run(run.folder)

    assert run.folder.read_json(run.folder.verdict)["status"] == OPEN


def late_log(run: TamperedRun) -> None:
    """Let the recorder see the log's ends 5 s late from the spike on."""
    ends = {(row["at"], row["partition"]): row["end_offset"] for row in run.rows("lag")}
    instants = sorted({at for at, _ in ends})

    def edit(row: Row) -> Row:
        if not 10 < run.seconds(row["at"]) < 40:
            return row
        earlier = [at for at in instants if at <= row["at"] - 5 * SECOND]
        end = max(ends[earlier[-1], row["partition"]], row["committed"] or 0)
        return {**row, "end_offset": end}

    run.edit_rows("lag", edit)


def early_log(run: TamperedRun, row: Row) -> Row:
    """Let the log have more than was due."""
    is_inside = 9 < run.seconds(row["at"]) < 16
    return {**row, "end_offset": row["end_offset"] + 3000} if is_inside else row


def second_producer(run: TamperedRun) -> None:
    """Let another producer have begun a stream, too."""
    run.add_records({**run.records("stream_started")[0], "source": "producer-other"})


def finished(**fields: object) -> Damage:
    """Return another last report of the producer."""
    return records("stream_finished", lambda _, r: {**r, **fields})


def end_of_the_run(**fields: Any) -> Damage:
    """Move the phase that ends the measurement, or leave it out."""

    def edit(run: TamperedRun, record: Row) -> Row | None:
        if record["name"] != "fence_run":
            return record
        return {**record, "at": run.at(fields["at"])} if fields else None

    return records("phase", edit)


def members_gone(run: TamperedRun) -> None:
    """Let four pods be Ready to the end, a minute after three had left the group."""
    end = max(record["at"] for record in run.records("group_sample"))
    run.edit_records(
        lambda r: {**r, "members": 1} if r["at"] > end - 65 * SECOND else r, "group_sample"
    )
    records("replica_sample", edited(-1e9, 1e9, spec=4, current=4, ready=4))(run)


def in_policy(run: TamperedRun) -> None:
    """Let the policy have a ceiling of 2; the run went to 4 replicas."""
    run.edit_yaml(
        "policy.yaml", lambda made: {**made, "spec": {**made["spec"], "maxReplicaCount": 2}}
    )


def other_hpa(run: TamperedRun) -> None:
    """Let the HPA have allowed 20 replicas at the end, where the policy says 4."""

    def edit(found: dict[str, Row]) -> dict[str, Row]:
        for hpa in found["HorizontalPodAutoscaler"].values():
            hpa["spec"]["maxReplicas"] = 20
        return found

    run.edit_json("autoscaler.json", edit)


def fence(run: TamperedRun, name: str, edit: Any) -> None:
    """Change a part of the fence."""
    run.edit_json("fence.json", lambda made: {**made, name: edit(made[name])})


def settings(**consumer: object) -> Damage:
    """Return a scenario with other settings than those with which each pod says that it ran."""
    return lambda run: run.set_scenario(consumer=consumer)


def without_the_third(offsets: Row) -> Row:
    """Return the offsets without those of a partition."""
    return {partition: at for partition, at in offsets.items() if partition != "2"}


INVALID: dict[str, tuple[Damage, str]] = {
    "the load reached the log late": (late_log, "reached the log late"),
    "early log": (rows("lag", early_log), "that were not yet due"),
    "late generator": (finished(lateness_p99_ms=5000.0), "the generator fell behind"),
    "stopped producer": (finished(reason="stopped by SIGTERM"), "did not complete its stream"),
    "aborted": (
        finished(aborted="total lag 9", sent=12, reason="aborted: total lag 9"),
        "total lag 9; 12 of ",
    ),
    "second producer": (second_producer, "2 producers reported a stream"),
}
DOUBTS: dict[str, tuple[Damage, str]] = {
    "scaled after the end": (end_of_the_run(at=33), "end"),
    "no end": (end_of_the_run(), "end"),
    "committed ahead": (
        lambda run: fence(run, "committed", lambda of: {p: at + 1000 for p, at in of.items()}),
        "end",
    ),
    "more members": (
        both(
            dropped("scaled", "replicas_changed"),
            records("replica_sample", edited(-1e9, 1e9, spec=1, current=4, ready=4)),
        ),
        "members",
    ),
    "fewer members": (members_gone, "members"),
    # For 25 s in which thousands of messages are done.
    "empty group": (
        records("group_sample", edited(5.01, 30, state="empty", members=0)),
        "empty_group",
    ),
    "above the ceiling": (in_policy, "above_the_ceiling"),
    "other HPA": (other_hpa, "other_policy"),
    "slower": (settings(process_ms=100), "other_settings"),
    "more at once": (settings(concurrency=8), "other_settings"),
    "more CPU": (settings(cpu_ms=1), "other_settings"),
    "static members": (settings(static_membership=True), "other_settings"),
    "other commits": (settings(commit="auto"), "other_settings"),
    "no shutdown": (settings(graceful_shutdown=False), "other_settings"),
    "other work": (settings(work="waited"), "other_settings"),
    "other balancer": (settings(balancer="range"), "other_settings"),
    "other seed": (lambda run: run.set_scenario(seed=99), "other_settings"),
    "no ends of a partition": (
        lambda run: fence(run, "events", without_the_third),
        "incomplete_fence",
    ),
    "no commit of a partition": (
        lambda run: fence(run, "committed", without_the_third),
        "incomplete_fence",
    ),
}


@pytest.mark.parametrize(("damage", "why"), INVALID.values(), ids=INVALID)
def test_another_load_is_invalid(run: TamperedRun, damage: Damage, why: str) -> None:
    """What Kafka took was not the plan, whoever tells so: nothing passes or fails."""
    check(run, {"run": OPEN, "invalid": why}, damage)


def test_an_abort_is_the_only_reason_that_is_given(run: TamperedRun) -> None:
    """A log that is late and a generator that ended early are its consequences."""
    late_log(run)
    finished(aborted="total lag 9", sent=12, reason="aborted: total lag 9")(run)

    assert [text.startswith("aborted") for text in run.judge().invalid] == [True]


@pytest.mark.parametrize(("damage", "code"), DOUBTS.values(), ids=DOUBTS)
def test_what_happened_to_a_run_beside_its_policy_is_a_doubt(
    run: TamperedRun, damage: Damage, code: str
) -> None:
    """Its code says which rule found it, and the run never passes."""
    check(run, {"doubt": code}, damage)

    assert Verdict.model_validate(run.folder.read_json("verdict.json")).status != PASS


def test_a_dead_member_that_waits_for_its_session_is_no_contradiction(run: TamperedRun) -> None:
    """A pod was killed at full replicas: for 10 s its successor is one member more."""
    check(run, {"doubts": set()}, records("group_sample", edited(20.01, 31, members=5)))


def without_records_of_a_pod(run: TamperedRun) -> None:
    """Leave out what the last pod reported: it worked, and what it took over is not known."""
    late = max(run.records("pod_started"), key=lambda record: record["at"])["source"]
    run.edit_records(lambda r: None if r["source"] == late else r)


def without_an_assignment(run: TamperedRun) -> None:
    """Leave out one: the pod's own count of its rebalances has a hole."""
    pods = new_pods(run)
    first = next(r for r in run.records("partitions_assigned") if r["source"] not in pods)
    run.edit_records(lambda r: None if r == first else r, "partitions_assigned")


@pytest.mark.parametrize("damage", [without_records_of_a_pod, without_an_assignment])
def test_lost_records_of_rebalances_decide_no_scale_step(run: TamperedRun, damage: Damage) -> None:
    """Who owned what is not known, so no dip is."""
    dip = "rebalance_dip_percent"
    check(run, {dip: OPEN, "why": "not recorded"}, damage, {dip: 100})


def test_members_that_are_not_named_are_not_known(run: TamperedRun) -> None:
    """No record says who was in the group."""
    run.drop_records("group_members")

    assert "no record of its members" in run.judge().open_ends[0]


@pytest.mark.parametrize("change", ["hole", "twice"])
def test_a_ledger_that_is_not_whole_blames_nobody(run: TamperedRun, change: str) -> None:
    """A batch of its own offsets is missing, or a file of it landed twice."""
    path = run.folder.table("processed")
    every = pa.concat_tables([pq.ParquetFile(part).read() for part in path.glob("*.parquet")])
    if change == "twice":
        pq.write_table(every.slice(0, 100), path / "part-again.parquet")
        run.set_accounting(duplicated=100, processed_records=every.num_rows + 100)
    else:
        offsets = every.column("ledger_offset").to_pylist()
        run.edit_rows("processed", lambda row: None if row["ledger_offset"] == offsets[0] else row)
        fewer = offsets.count(offsets[0])
        left = every.num_rows - fewer
        run.set_accounting(lost=fewer, processed_records=left, processed_distinct=left)

    check(run, {"run": OPEN, "doubt": "ledger_holes"})


def test_a_record_of_another_year_is_of_no_run(run: TamperedRun) -> None:
    """Its instant lengthens nothing; it is counted as what it is, an unknown record."""
    [first, *_] = run.records("replica_sample")
    run.add_records({**first, "at": first["at"] + 10**18})

    assert (run.measure().run_seconds or 0) < 600
    assert run.judge().status == OPEN


# Owners ------------------------------------------------------------------------------------------


def members(run: TamperedRun, at_seconds: float, *owned: tuple[str, list[int]]) -> Row:
    """Return a reading of the stable group: client ids with their partitions."""
    state = {"state": "stable", "members": len(owned), "members_without_partitions": 0}
    of = {"at": run.at(at_seconds), "source": run.records("lag_sample")[0]["source"]}
    found = [
        {"member_id": f"m-{pod}", "client_id": pod, "host": "/127.0.0.1", "partitions": partitions}
        for pod, partitions in owned
    ]
    run.add_records({**of, "kind": "group_sample", **state})
    return {**of, "kind": "group_members", "members": found}


def pods_at(run: TamperedRun, at_seconds: float) -> list[tuple[str, list[int]]]:
    """Return the pods' own partitions at an instant."""
    owned: dict[str, list[int]] = {}
    for record in run.records("partitions_assigned", "partitions_revoked"):
        if run.seconds(record["at"]) <= at_seconds:
            owned[record["source"]] = record["owned"]
    return [(pod, partitions) for pod, partitions in owned.items() if partitions]


def test_two_owners_of_one_partition_are_named(run: TamperedRun) -> None:
    """The broker describes it so in one reading."""
    first, second, *rest = pods_at(run, 30)
    run.drop_records("group_members", from_seconds=29, until_seconds=31)
    run.add_records(members(run, 30, first, (second[0], [*second[1], *first[1]]), *rest))

    check(run, {"run": OPEN, "doubts": {"two_owners"}})


def test_other_owners_than_the_pods_report_are_named(run: TamperedRun) -> None:
    """Two pods with each other's partitions for 14 s; for a second it is a rebalance."""
    first, second, *rest = pods_at(run, 30)
    swapped = ((first[0], second[1]), (second[0], first[1]), *rest)
    run.add_records(members(run, 22, *swapped), members(run, 23, *pods_at(run, 30)))
    check(run, {"run": PASS, "doubts": set()})

    run.drop_records("group_members", from_seconds=24, until_seconds=42)
    run.add_records(*(members(run, second, *swapped) for second in (24, 30, 38)))
    check(run, {"run": OPEN, "doubts": {"other_owners"}})


# Who scaled, and by which policy -----------------------------------------------------------------
