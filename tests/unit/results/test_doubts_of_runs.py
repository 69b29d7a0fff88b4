"""Run folders whose parts tell of different runs, or of another policy: they never pass."""

from __future__ import annotations

import json
import shutil
from typing import Any

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
    slo,
)

from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import NotReady, WrongInput
from lagbench.results.measure_run import rejudge_run
from lagbench.results.seals import seal, seal_evidence

PASS, FAIL, OPEN = "pass", "fail", "undetermined"
RECORDER = "recorder-ln44x6m9r8-4g64s"
IDENTITY = {"lost", "duplicated", "reordered", "zombies"}


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


def test_a_record_of_another_year_is_of_no_run(run: TamperedRun) -> None:
    """Its instant lengthens nothing; it is counted as what it is, an unknown record."""
    [first, *_] = run.records("replica_sample")
    run.add_records({**first, "at": first["at"] + 10**18})

    assert (run.measure().run_seconds or 0) < 600
    assert run.judge().status == OPEN


# Seals -------------------------------------------------------------------------------------------


def accounting(**fields: Any) -> Damage:
    """Return a change of accounting.json."""
    return lambda run: run.set_accounting(**fields)


def replaced(kind: str, **fields: Any) -> Damage:
    """Return a change of the fields of a kind of record."""
    return records(kind, lambda _, r: {**r, **fields})


FORGED: dict[str, Damage] = {
    "a hundredth of the lag": rows(
        "lag", lambda _, row: {**row, "committed": row["end_offset"] - (row["lag"] or 0) // 100}
    ),
    "a second of another timeline": rows(
        "timeline", lambda run, row: None if 20 <= run.seconds(row["at"]) < 28 else row
    ),
    "percentiles that do not ascend": accounting(time_lag_seconds={"p50": 1, "p95": 0.1}),
    "no loss": accounting(lost=0, processed_distinct=1),
    "a later fence": lambda run: fence(run, "fenced_at", lambda _: None),
    "a shorter tail": replaced("stream_finished", tail_sent=0),
    "a tail of its own": replaced("stream_started", tail_rate_per_second=60_000.0),
    "failed deliveries": replaced("stream_finished", failed_seqs=[[5, 9]]),
    "another lateness": replaced("producer_progress", lateness_max_ms=5e3),
    "another wait": replaced("phase", detail="timed out"),
    "another scaling": replaced("scaled", replicas_after=3),
    "another process time": settings(process_ms=100),
    "another limit": lambda run: run.set_slos(reaction_seconds=60),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_an_edited_folder_is_refused(run: TamperedRun, forge: Damage) -> None:
    """Inputs are sealed at the stream, tables and counts once they are accounted for."""
    seal(run.folder)
    seal_evidence(run.folder)
    forge(run)

    with pytest.raises(WrongInput, match="changed since"):
        rejudge_run(run.folder)


def test_a_repeated_accounting_is_sealed_again(run: TamperedRun) -> None:
    """The task may be retried: its own tables are no forged ones."""
    seal_evidence(run.folder)
    assert rejudge_run(run.folder).status == PASS
    run.write_rows("bad_messages", [])
    run.set_accounting(outside_run=0)
    seal_evidence(run.folder)

    assert rejudge_run(run.folder).status == PASS


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


def scaled_by_hand(run: TamperedRun) -> None:
    """Let a person scale to 4 half a second into the spike, before the next sync would."""
    first = run.records("scaled")[0]["at"]
    run.edit_records(lambda r: None if r["at"] == first else r, "scaled")
    by_hand = {"at": run.at(8.5), "manager": "kubectl"}
    run.edit_records(
        lambda r: {**r, **by_hand} if r["replicas_after"] == 4 else r, "replicas_changed"
    )
    records("replica_sample", edited(8.5, 9.8, spec=4, current=4))(run)
    records("hpa_sync", edited(9, 10, spec_replicas=4, status_replicas=4))(run)


def test_a_person_who_scales_is_no_policy(run: TamperedRun) -> None:
    """The SLOs hold, by a hand: undetermined, with the author and the instant."""
    check(run, {"run": OPEN, "doubts": {"other_author"}}, scaled_by_hand)

    (doubt,) = run.measure().doubts
    assert doubt.text == "1 to 4 replicas at +0.5 s: written by kubectl, not by the policy"
    verdict = run.judge()
    assert slo(verdict, "flips").reason.endswith("in doubt: other_author")
    assert {result.name for result in verdict.slos if result.status == PASS} == IDENTITY


def test_lost_messages_stay_lost_whoever_scaled(run: TamperedRun) -> None:
    """What became of messages does not depend on the author of a scaling."""
    scaled_by_hand(run)
    found = run.folder.read_json("accounting.json")
    fewer = {name: found[name] - 1 for name in ("processed_distinct", "processed_records")}

    check(run, {"run": FAIL, "lost": FAIL, "reaction_seconds": OPEN}, accounting(lost=1, **fewer))


UNTOLD = dropped("scaled", "replicas_changed", "kube_event", until_seconds=20)


def test_a_change_that_nobody_reports_has_no_author(run: TamperedRun) -> None:
    """Samples show 1, then 4 replicas; autoscaler and watch say nothing of it."""
    nobody = both(UNTOLD, records("hpa_sample", edited(-1e9, 1e9, last_scaled_at=None)))

    check(run, {"run": OPEN, "doubts": {"other_author"}}, nobody)


def test_on_a_cluster_the_status_of_the_hpa_names_its_step(run: TamperedRun) -> None:
    """The watch was broken, but the HPA says that it scaled to 4 in that second."""
    at = run.records("scaled")[0]["at"] // SECOND * SECOND
    step = both(UNTOLD, records("hpa_sample", edited(9.8, 25, desired=4, last_scaled_at=at)))

    check(run, {"run": PASS, "doubts": set()}, step)


@pytest.mark.parametrize(
    ("before", "after", "codes"), [(0, 1, []), (4, 6, ["other_author"]), (2, 1, [])]
)
def test_keda_scales_to_and_from_zero_only(
    run: TamperedRun, before: int, after: int, codes: list[str]
) -> None:
    """Also to its floor; other numbers are the HPA's."""
    told = {"replicas_before": before, "replicas_after": after, "by": "keda"}
    run.edit_records(lambda r: {**r, **told} if r["replicas_after"] == 4 else r, "scaled")
    records("replica_sample", edited(-1e9, 9.8, spec=before))(run)
    records("replica_sample", edited(9.8, 1e9, spec=after))(run)
    run.drop_records("scaled", "replicas_changed", from_seconds=20)
    run.drop_records("replicas_changed")

    found = [doubt.code for doubt in run.measure().doubts if doubt.code == "other_author"]
    assert found == codes


TARGET = "s0-kafka-lagbench-tiny-spike-20261127-034722-69c8-events: averageValue {}"
HIGHER = {"targets": [TARGET.format(5000)]}
PAUSED = {"conditions": ["Ready=True ScaledObjectReady", "Paused=True ScaledObjectPaused"]}
FALLBACK = {"conditions": ["Ready=True ScaledObjectReady", "Fallback=True FallbackExists"]}


@pytest.mark.parametrize(
    ("kind", "span", "fields"),
    [
        ("hpa_sample", (-1e9, 1e9), HIGHER),
        ("hpa_sample", (8, 12), HIGHER),
        ("hpa_sample", (20, 30), {"max_replicas": 3}),
        ("hpa_sample", (20, 30), {"min_replicas": 2}),
        ("scaled_object_sample", (20, 30), {"scales_at_records": 5000.0}),
        ("scaled_object_sample", (20, 30), {"group_target_records": 900.0}),
        ("scaled_object_sample", (20, 30), {"tolerance": 0.5}),
        ("scaled_object_sample", (12, 1e9), PAUSED),
        ("scaled_object_sample", (20, 30), FALLBACK),
    ],
    ids=["target", "target-in-a-sync", "max", "min", "lag", "group", "tolerance", "pause", "fall"],
)
def test_another_policy_in_force_leaves_the_run_undetermined(
    run: TamperedRun, kind: str, span: tuple[float, float], fields: Row
) -> None:
    """The readings say so, with both values; the file in the folder is the applied one."""
    in_force = records(kind, edited(*span, **fields))

    check(run, {"run": OPEN, "doubts": {"other_policy"}, "lost": (PASS, 0)}, in_force)


def test_an_edit_that_no_sync_used_is_named_and_decides_nothing(run: TamperedRun) -> None:
    """Syncs were at +9.8, +25 and +40 s."""
    check(run, {"run": PASS, "doubts": set()}, records("hpa_sample", edited(12, 16, **HIGHER)))

    assert sum("undone before a sync" in note for note in run.judge().notes) == 1


@pytest.mark.parametrize("at_seconds", [None, 5, 45])
def test_a_second_or_no_autoscaler_is_not_the_policy(
    run: TamperedRun, at_seconds: float | None
) -> None:
    """Another HPA on the same workload; or the ScaledObject was deleted by another client."""
    if at_seconds is None:
        others = [{**r, "name": "by-cpu"} for r in run.records("hpa_sample")]
        run.add_records(*(r for r in others if run.seconds(r["at"]) > 20))
    else:
        run.drop_records("scaled_object_sample", "hpa_sample", from_seconds=at_seconds)
        run.set_slos(reaction_seconds=1)

    check(run, {"run": OPEN, "doubts": {"other_policy"}})


def test_readings_that_failed_are_no_deleted_object(run: TamperedRun) -> None:
    """The API server was not reachable for 10 s: a gap says so."""
    for what, kind in (("hpa", "hpa_sample"), ("scaled_object", "scaled_object_sample")):
        run.drop_records(kind, from_seconds=20, until_seconds=30)
        gap = {"kind": "read_gap", "source": RECORDER, "what": what, "reason": "timed out"}
        run.add_records(*({**gap, "at": run.at(second)} for second in range(20, 30)))

    check(run, {"run": PASS, "doubts": set()})


def stored(run: TamperedRun, at_seconds: float, kind: str, **changes: object) -> Row:
    """Return the recorder's report of a stored scaling object."""
    ((name, found),) = run.folder.read_json("autoscaler.json")[kind].items()
    annotations = changes.pop("annotations", {})
    return {
        "kind": "scaling_object",
        "at": run.at(at_seconds),
        "source": RECORDER,
        "object_kind": kind,
        "name": name,
        "spec": {**found["spec"], **changes},
        "annotations": annotations,
    }


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("ScaledObject", {"cooldownPeriod": 5}),
        ("ScaledObject", {"fallback": {"failureThreshold": 3, "replicas": 4}}),
        ("ScaledObject", {"annotations": {"autoscaling.keda.sh/paused": "true"}}),
        ("HorizontalPodAutoscaler", {"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}),
    ],
    ids=["cooldown", "fallback", "pause", "behavior"],
)
def test_each_field_of_the_stored_object_is_compared(
    run: TamperedRun, kind: str, changes: Row
) -> None:
    """The same object without the change, or back before the next sync, is in order."""
    same = stored(run, -2, kind)
    run.add_records(same, stored(run, 12, kind, **changes), {**same, "at": run.at(16)})
    check(run, {"run": PASS, "doubts": set()})

    run.add_records(stored(run, 20, kind, **changes), {**same, "at": run.at(30)})
    check(run, {"run": OPEN, "doubts": {"other_policy"}})


def test_an_edit_before_the_stream_is_in_force_from_its_start(run: TamperedRun) -> None:
    """The recorder sends an object when it changed, and this one changed 2 s before the stream."""
    run.add_records(stored(run, -2, "ScaledObject", cooldownPeriod=5))

    check(run, {"run": OPEN, "doubts": {"other_policy"}})


def test_a_swapped_policy_of_another_kind_is_no_deleted_object(run: TamperedRun) -> None:
    """From +12 s on a plain HPA scales, so there is no ScaledObject any more."""
    stamp = {"source": "actions", "number": 0, "action": "swap_policy"}
    begun = {**stamp, "kind": "action_started", "targets": ["hpa"], "planned_at": run.at(12)}
    run.set_scenario(actions=[{"kind": "swap_policy", "at_seconds": 12, "policy": "hpa"}])
    ended = {**stamp, "kind": "action_ended", "at": run.at(12.5)}
    run.add_records({**begun, "at": run.at(12)}, ended)
    ((name, found),) = run.folder.read_json("autoscaler.json")["HorizontalPodAutoscaler"].items()
    policy = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": found["spec"]}
    (run.folder.path / "policy-0.yaml").write_text(json.dumps(policy))
    run.drop_records("scaled_object_sample", from_seconds=12)

    assert run.measure().doubts == ()
