"""Run folders that cannot be measured, or whose parts tell of different runs: they never pass."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.tampered_run import SECOND, Row, TamperedRun, new_pods, slo

from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import NotReady, WrongInput
from lagbench.results.measure_run import rejudge_run
from lagbench.results.seals import seal, seal_evidence

Damage = Callable[[TamperedRun], object]


def test_a_folder_that_cannot_be_measured_keeps_no_earlier_verdict(run: TamperedRun) -> None:
    """A table is gone: what an earlier judgement said is not true of this folder."""
    assert run.judge().status == "pass"
    shutil.rmtree(run.folder.table("lag"))

    with pytest.raises(NotReady):
        rejudge_run(run.folder)

    verdict = Verdict.model_validate(run.folder.read_json(run.folder.verdict))
    assert verdict.status == "undetermined"
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
    run.judge()
    run.edit_json(name, lambda _: content)

    with pytest.raises(NotReady, match=r"was not written by lagbench|an earlier version"):
        rejudge_run(run.folder)

    assert run.folder.read_json(run.folder.verdict)["status"] == "undetermined"


def rows(table: str, edit: Callable[[TamperedRun, Row], Row | None]) -> Damage:
    """Return a change of the rows of a table."""
    return lambda run: run.edit_rows(table, lambda row: edit(run, row))


def records(kind: str, edit: Callable[[TamperedRun, Row], Row | None]) -> Damage:
    """Return a change of the records of a kind."""
    return lambda run: run.edit_records(lambda record: edit(run, record), kind)


def phase(run: TamperedRun, move: Callable[[Row], Row | None]) -> None:
    """Change the phase that ends the measurement."""
    run.edit_records(lambda r: move(r) if r["name"] == "fence_run" else r, "phase")


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


INVALID: dict[str, tuple[Damage, str]] = {
    "late log": (late_log, "the load reached the log late"),
    "early log": (
        rows(
            "lag",
            lambda run, row: (
                {**row, "end_offset": row["end_offset"] + 3000}
                if 9 < run.seconds(row["at"]) < 16
                else row
            ),
        ),
        "that were not yet due",
    ),
    "late generator": (
        records("stream_finished", lambda _, r: {**r, "lateness_p99_ms": 5000.0}),
        "the generator fell behind",
    ),
    "stopped producer": (
        records("stream_finished", lambda _, r: {**r, "reason": "stopped by SIGTERM"}),
        "did not complete its stream",
    ),
    "second producer": (
        lambda run: run.add_records(
            {**run.records("stream_started")[0], "source": "producer-other"}
        ),
        "2 producers reported a stream",
    ),
}


@pytest.mark.parametrize(("damage", "why"), INVALID.values(), ids=INVALID)
def test_another_load_is_invalid(run: TamperedRun, damage: Damage, why: str) -> None:
    """What Kafka took was not the plan, whoever tells so: nothing passes or fails."""
    damage(run)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert any(why in reason for reason in verdict.invalid)
    assert {result.status for result in verdict.slos} == {"undetermined", "not_judged"}


def empty_group(run: TamperedRun) -> None:
    """Let the broker see no member for 25 s in which thousands of messages are done."""

    def edit(record: Row) -> Row:
        is_inside = 5 < run.seconds(record["at"]) < 30
        return {**record, "state": "empty", "members": 0} if is_inside else record

    run.edit_records(edit, "group_sample")


def fewer_replicas(run: TamperedRun) -> None:
    """Let the samples never show more than one replica; 4 members were in the group."""
    run.drop_records("scaled", "replicas_changed")
    run.edit_records(lambda r: {**r, "spec": 1, "current": 4, "ready": 4}, "replica_sample")


def members_gone(run: TamperedRun) -> None:
    """Let four pods be Ready to the end, a minute after three had left the group."""
    end = max(record["at"] for record in run.records("group_sample"))
    run.edit_records(
        lambda r: {**r, "members": 1} if r["at"] > end - 65 * SECOND else r, "group_sample"
    )
    run.edit_records(lambda r: {**r, "spec": 4, "current": 4, "ready": 4}, "replica_sample")


def ceiling(run: TamperedRun) -> None:
    """Let the policy have a ceiling of 2; the run went to 4 replicas."""

    def edit(policy: Row) -> Row:
        policy["spec"]["maxReplicaCount"] = 2
        return policy

    run.edit_yaml("policy.yaml", edit)


def other_hpa(run: TamperedRun) -> None:
    """Let the HPA have allowed 20 replicas at the end, where the policy says 4."""

    def edit(found: dict[str, Row]) -> dict[str, Row]:
        for hpa in found["HorizontalPodAutoscaler"].values():
            hpa["spec"]["maxReplicas"] = 20
        return found

    run.edit_json("autoscaler.json", edit)


def committed_ahead(run: TamperedRun) -> None:
    """Let the group have committed what was never written."""

    def edit(fence: Row) -> Row:
        return {**fence, "committed": {p: at + 1000 for p, at in fence["committed"].items()}}

    run.edit_json("fence.json", edit)


def settings(**consumer: object) -> Damage:
    """Return a scenario with other settings than those with which each pod says that it ran."""
    return lambda run: run.set_scenario(consumer=consumer)


DOUBTFUL: dict[str, tuple[Damage, str]] = {
    "scaled after the end": (
        lambda run: phase(run, lambda r: {**r, "at": run.at(33)}),
        "end",
    ),
    "no end": (lambda run: phase(run, lambda _: None), "end"),
    "committed ahead": (committed_ahead, "end"),
    "more members": (fewer_replicas, "members"),
    "fewer members": (members_gone, "members"),
    "empty group": (empty_group, "empty_group"),
    "above the ceiling": (ceiling, "above_the_ceiling"),
    "other HPA": (other_hpa, "other_policy"),
    "slower": (settings(process_ms=100), "other_settings"),
    "more at once": (settings(concurrency=8), "other_settings"),
    "more CPU": (settings(cpu_ms=1), "other_settings"),
    "static members": (settings(static_membership=True), "other_settings"),
    "other commits": (settings(commit="auto"), "other_settings"),
    "no shutdown": (settings(graceful_shutdown=False), "other_settings"),
    "other balancer": (settings(balancer="range"), "other_settings"),
    "other seed": (lambda run: run.set_scenario(seed=99), "other_settings"),
}


@pytest.mark.parametrize(("damage", "code"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_what_happened_to_a_run_beside_its_policy_is_a_doubt(
    run: TamperedRun, damage: Damage, code: str
) -> None:
    """Its code says which rule found it, and the run never passes."""
    damage(run)

    assert run.judge().status != "pass"
    assert code in [doubt.code for doubt in run.measure().doubts]


def test_a_dead_member_that_waits_for_its_session_is_no_contradiction(run: TamperedRun) -> None:
    """A pod was killed at full replicas: for 10 s its successor is one member more."""
    run.edit_records(
        lambda r: {**r, "members": 5} if 20 < run.seconds(r["at"]) < 31 else r, "group_sample"
    )

    assert run.measure().doubts == ()


def without_records_of_a_pod(run: TamperedRun) -> None:
    """Leave out what the last pod reported: it worked, and what it took over is not known."""
    late = max(run.records("pod_started"), key=lambda record: record["at"])["source"]
    run.edit_records(lambda r: None if r["source"] == late else r)


def without_an_assignment(run: TamperedRun) -> None:
    """Leave out one: the pod's own count of its rebalances has a hole."""
    pods = new_pods(run)
    moves = [r for r in run.records("partitions_assigned") if r["source"] not in pods]
    run.edit_records(
        lambda r: None if (r["source"], r["at"]) == (moves[0]["source"], moves[0]["at"]) else r,
        "partitions_assigned",
    )


@pytest.mark.parametrize("damage", [without_records_of_a_pod, without_an_assignment])
def test_lost_records_of_rebalances_decide_no_scale_step(run: TamperedRun, damage: Damage) -> None:
    """Who owned what is not known, so no dip is."""
    damage(run)
    run.set_slos(rebalance_dip_percent=100)

    found = slo(run.judge(), "rebalance_dip_percent")

    assert found.status == "undetermined"
    assert "not recorded" in found.reason


def test_a_lost_assignment_makes_no_slow_reaction(run: TamperedRun) -> None:
    """The pods count their rebalances: what a later record shows is the latest instant only."""
    first_work = {r["source"]: r["at"] for r in run.records("first_record_done")}

    def edit(record: Row) -> Row | None:
        return None if record["at"] < first_work.get(record["source"], 0) + SECOND else record

    run.edit_records(edit, "partitions_assigned")
    run.set_slos(reaction_seconds=4)

    assert slo(run.judge(), "reaction_seconds").status == "undetermined"


def test_polls_alone_tell_of_no_replicas(run: TamperedRun) -> None:
    """KEDA's polls continue while nobody saw how many replicas were wanted."""
    run.drop_records("replica_sample", "replicas_watched", from_seconds=12, until_seconds=38)
    run.drop_records("hpa_sync", "scaled", "replicas_changed")

    assert slo(run.judge(), "flips").status == "undetermined"


def test_members_that_are_not_named_are_not_known(run: TamperedRun) -> None:
    """No record says who was in the group."""
    run.drop_records("group_members")

    assert "no record of its members" in run.judge().open_ends[0]


def test_a_record_of_another_year_is_of_no_run(run: TamperedRun) -> None:
    """Its instant lengthens nothing; it is counted as what it is, an unknown record."""
    [first, *_] = run.records("replica_sample")
    run.add_records({**first, "at": first["at"] + 10**18})

    assert (run.measure().run_seconds or 0) < 600
    assert run.judge().status == "undetermined"


def accounting(**fields: Any) -> Damage:
    """Return a change of accounting.json."""
    return lambda run: run.set_accounting(**fields)


FORGED: dict[str, Damage] = {
    "a hundredth of the lag": rows(
        "lag", lambda _, row: {**row, "committed": row["end_offset"] - (row["lag"] or 0) // 100}
    ),
    "a second of another timeline": rows(
        "timeline", lambda run, row: None if 20 <= run.seconds(row["at"]) < 28 else row
    ),
    "percentiles that do not ascend": accounting(time_lag_seconds={"p50": 1, "p95": 0.1}),
    "a shorter time lag": accounting(
        time_lag_seconds=dict.fromkeys(("p50", "p95", "p99", "max"), 0.1)
    ),
    "no loss": accounting(lost=0, processed_distinct=1),
    "a later fence": lambda run: run.edit_json("fence.json", lambda f: {**f, "fenced_at": None}),
    "a shorter tail": records("stream_finished", lambda _, r: {**r, "tail_sent": 0}),
    "a tail of its own": records(
        "stream_started", lambda _, r: {**r, "tail_rate_per_second": 60_000.0}
    ),
    "failed deliveries": records("stream_finished", lambda _, r: {**r, "failed_seqs": [[5, 9]]}),
    "another lateness": records("producer_progress", lambda _, r: {**r, "lateness_max_ms": 5e3}),
    "another wait": records("phase", lambda _, r: {**r, "detail": "timed out"}),
    "another scaling": records("scaled", lambda _, r: {**r, "replicas_after": 3}),
    "another process time": settings(process_ms=100),
    "another limit": lambda run: run.set_slos(reaction_seconds=60),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_an_edited_folder_is_refused(run: TamperedRun, forge: Damage) -> None:
    """Inputs are sealed at the stream, tables and counts once they are accounted for."""
    seal(run.folder)
    seal_evidence(run.folder)
    assert run.judge().status == "pass"
    forge(run)

    with pytest.raises(WrongInput, match="changed since"):
        rejudge_run(run.folder)


def test_a_repeated_accounting_is_sealed_again(run: TamperedRun) -> None:
    """The task may be retried: its own tables are no forged ones."""
    seal_evidence(run.folder)
    run.write_rows("bad_messages", [])
    run.set_accounting(outside_run=0)
    seal_evidence(run.folder)

    assert rejudge_run(run.folder).status == "pass"
