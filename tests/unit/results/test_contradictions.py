"""Run folders whose files tell of different runs: they never pass."""

from __future__ import annotations

import shutil

import pytest
from tests.fakes.tampered_run import SECOND, Row, TamperedRun, slo

from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import NotReady
from lagbench.results.measure import rejudge_run


def test_a_folder_that_cannot_be_measured_keeps_no_earlier_verdict(run: TamperedRun) -> None:
    """A table is gone: what an earlier judgement said is not true of this folder."""
    assert run.judge().status == "pass"
    shutil.rmtree(run.folder.table("lag"))

    with pytest.raises(NotReady):
        rejudge_run(run.folder)

    verdict = Verdict.model_validate(run.folder.read_json(run.folder.verdict))
    assert verdict.status == "undetermined"
    assert "no table lag" in verdict.reasons[0]


def reasons_of(run: TamperedRun, status: str = "undetermined") -> str:
    """Judge the run, hold its status and return why."""
    verdict = run.judge()
    assert verdict.status == status
    return "; ".join(verdict.reasons)


def codes_of(run: TamperedRun) -> list[str]:
    """Return the codes of the doubts about the run."""
    return [doubt.code for doubt in run.measure().doubts]


def test_a_load_that_reached_the_log_late_is_another_load(run: TamperedRun) -> None:
    """The recorder saw the log's ends 5 s late from the spike on, whatever the producer told."""
    ends = {(row["at"], row["partition"]): row["end_offset"] for row in run.rows("lag")}
    instants = sorted({at for at, _ in ends})

    def edit(row: Row) -> Row:
        if not 10 < run.seconds(row["at"]) < 40:
            return row
        earlier = [at for at in instants if at <= row["at"] - 5 * SECOND]
        end = max(ends[earlier[-1], row["partition"]], row["committed"] or 0)
        return {**row, "end_offset": end, "lag": end - (row["committed"] or 0)}

    run.edit_rows("lag", edit)

    assert "the load reached the log late" in reasons_of(run)


def test_a_generator_is_late_by_its_figures(run: TamperedRun) -> None:
    """A p99 of 5 s is another load, also where the producer did not call itself late."""
    run.edit_records(lambda record: {**record, "lateness_p99_ms": 5000.0}, "stream_finished")

    assert "the generator fell behind" in reasons_of(run)


def test_scaling_after_the_end_contradicts_the_end(run: TamperedRun) -> None:
    """The phase that ends the measurement was moved before the scale-down."""

    def edit(record: Row) -> Row:
        if record["name"] != "fence_run":
            return record
        return {**record, "at": run.at(45)}

    run.edit_records(edit, "phase")

    assert "scaled" in reasons_of(run)


def test_a_measurement_without_a_recorded_end_proves_nothing(run: TamperedRun) -> None:
    """The phase that ends it is in every run."""
    run.edit_records(lambda record: None if record["name"] == "fence_run" else record, "phase")

    assert "phase fence_run" in reasons_of(run)


def test_a_fence_before_the_end_is_none_of_this_run(run: TamperedRun) -> None:
    """It was taken before the spike."""
    run.edit_json("fence.json", lambda fence: {**fence, "fenced_at": run.at(5)})

    assert "before the measurement" in reasons_of(run)


def test_commits_beyond_the_log_are_no_drain(run: TamperedRun) -> None:
    """A group cannot have committed what was never written."""

    def edit(fence: Row) -> Row:
        ahead = {part: at + 1000 for part, at in fence["committed"].items()}
        return {**fence, "committed": ahead}

    run.edit_json("fence.json", edit)

    assert "had committed more" in reasons_of(run)


def test_lag_that_the_recorder_did_not_tell_of_proves_nothing(run: TamperedRun) -> None:
    """A hundredth of the lag in the table, and the recorder's own records beside it."""

    def edit(row: Row) -> Row:
        lag = (row["lag"] or 0) // 100
        return {**row, "lag": lag, "committed": row["end_offset"] - lag}

    run.edit_rows("lag", edit)

    assert "the table lag " in reasons_of(run)


def test_a_timeline_without_some_bins_fails_nothing(run: TamperedRun) -> None:
    """What the group did in them is not known: neither a dip nor a standstill."""
    run.edit_rows("timeline", lambda row: None if 20 <= run.seconds(row["at"]) < 28 else row)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert slo(verdict, "standstill_seconds").status == "undetermined"
    assert "lacks 80 of" in slo(verdict, "standstill_seconds").reason


def test_a_timeline_of_fewer_messages_than_the_log_proves_nothing(run: TamperedRun) -> None:
    """Its end was cut off: that is no standstill, and no pass."""
    run.edit_rows("timeline", lambda row: None if run.seconds(row["at"]) > 20 else row)

    assert "the table timeline has" in reasons_of(run)


def test_a_pod_whose_records_were_lost_fails_no_scale_step(run: TamperedRun) -> None:
    """It worked, but when it came and what it took over is not known."""
    late = max(run.records("pod_started"), key=lambda record: record["at"])["source"]
    run.edit_records(
        lambda record: None if late in (record["source"], record.get("pod")) else record
    )
    run.set_slos(rebalance_dip_percent=1, rebalance_area_seconds=0.001)

    verdict = run.judge()

    assert slo(verdict, "rebalance_dip_percent").status == "undetermined"
    assert "is not recorded" in slo(verdict, "rebalance_dip_percent").reason


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
    run.drop_records("replica_sample", "replicas_watched", from_seconds=12, until_seconds=50)
    run.drop_records("hpa_sync", "scaled", "replicas_changed")

    assert slo(run.judge(), "flips").status == "undetermined"


def test_a_lost_assignment_fails_no_scale_step(run: TamperedRun) -> None:
    """The pod's own count of its rebalances has a hole: who owned what is not known."""
    moves = run.records("partitions_assigned")
    lost = next(r for r in moves if r["rebalance"] == 2)
    run.edit_records(
        lambda r: None if (r["source"], r["at"]) == (lost["source"], lost["at"]) else r,
        "partitions_assigned",
    )
    run.set_slos(rebalance_dip_percent=1, rebalance_area_seconds=0.001)

    found = slo(run.judge(), "rebalance_dip_percent")

    assert found.status == "undetermined"
    assert "are not recorded" in found.reason


def test_more_members_than_replicas_are_a_contradiction(run: TamperedRun) -> None:
    """The replicas are told never above 1, but 4 members were in the group."""
    run.drop_records("scaled", "replicas_changed")
    run.edit_records(lambda r: {**r, "spec": 1, "current": 4, "ready": 4}, "replica_sample")

    assert "members" in codes_of(run)


def test_members_that_left_show_a_scale_down_that_was_not_reported(run: TamperedRun) -> None:
    """Four pods are told to be Ready to the end, a minute after three had left the group."""
    end = max(record["at"] for record in run.records("group_sample"))

    def later(record: Row) -> Row:
        left = {**record, "members": 1}
        return left if record["at"] > end - 65 * SECOND else record

    run.edit_records(later, "group_sample")
    run.edit_records(lambda r: {**r, "spec": 4, "current": 4, "ready": 4}, "replica_sample")

    assert "members" in codes_of(run)


@pytest.mark.parametrize(
    "setting",
    [
        {"process_ms": 100},
        {"concurrency": 8},
        {"cpu_ms": 1},
        {"static_membership": True},
        {"commit": "auto"},
        {"graceful_shutdown": False},
    ],
)
def test_other_settings_than_the_pods_ran_with_prove_nothing(
    run: TamperedRun, setting: dict[str, int]
) -> None:
    """The scenario was changed afterwards; each pod says with what it ran."""
    run.set_scenario(consumer=setting)

    assert codes_of(run) == ["other_settings"]


def test_another_seed_than_the_producers_is_another_stream(run: TamperedRun) -> None:
    """The scenario was changed afterwards."""
    run.set_scenario(seed=99)

    assert codes_of(run) == ["other_settings"]


def test_commits_ahead_of_the_work_are_no_drain(run: TamperedRun) -> None:
    """All is told to be committed 5 s after the spike, in table and records; the work continued."""

    def in_table(row: Row) -> Row:
        is_early = run.seconds(row["at"]) > 33
        return {**row, "committed": row["end_offset"], "lag": 0} if is_early else row

    def in_record(record: Row) -> Row:
        if run.seconds(record["at"]) <= 33:
            return record
        return {**record, "partitions": [[p, end, end] for p, end, _ in record["partitions"]]}

    run.edit_rows("lag", in_table)
    run.edit_records(in_record, "lag_sample")

    assert "more than it had done" in reasons_of(run)


def test_a_log_ahead_of_its_plan_is_another_load(run: TamperedRun) -> None:
    """The recorder saw 12,000 messages in the log that were not due yet."""
    run.edit_rows(
        "lag",
        lambda row: (
            {**row, "end_offset": row["end_offset"] + 3000}
            if 12 < run.seconds(row["at"]) < 25
            else row
        ),
    )

    assert "that were not yet due" in reasons_of(run)


@pytest.mark.parametrize(("rank", "seconds"), [("p99", 0.01), ("p95", 0.01), ("p95", 12.9)])
def test_percentiles_that_do_not_ascend_are_none(
    run: TamperedRun, rank: str, seconds: float
) -> None:
    """p99 was set below p95, or p95 below p50 or above p99."""
    found = run.folder.read_json("accounting.json")["time_lag_seconds"]
    run.set_accounting(time_lag_seconds={**found, rank: seconds})

    assert "do not ascend" in reasons_of(run)


def test_a_time_lag_below_its_own_table_is_none(run: TamperedRun) -> None:
    """All four percentiles are a tenth of a second, the table latency says more."""
    run.set_accounting(time_lag_seconds=dict.fromkeys(("p50", "p95", "p99", "max"), 0.1))

    assert "in the table latency" in reasons_of(run)


@pytest.mark.parametrize(
    ("name", "content"),
    [("fence.json", {}), ("accounting.json", []), ("manifest.json", {"run_id": "x"})],
)
def test_a_file_of_another_shape_is_one_clear_message(
    run: TamperedRun, name: str, content: object
) -> None:
    """No traceback, and no verdict of before."""
    run.judge()
    run.edit_json(name, lambda _: content)

    with pytest.raises(NotReady, match="was not written by lagbench"):
        rejudge_run(run.folder)

    assert run.folder.read_json(run.folder.verdict)["status"] == "undetermined"


def test_a_dead_member_that_waits_for_its_session_is_no_contradiction(run: TamperedRun) -> None:
    """A pod was killed at full replicas: for 10 s its successor is one member more."""
    most = max(record["replicas_after"] for record in run.records("scaled"))
    pods = sorted(record["source"] for record in run.records("pod_started"))

    def edit(record: Row) -> Row:
        is_over = 30 < run.seconds(record["at"]) < 41
        return {**record, "members": most + 1} if is_over and len(pods) >= most else record

    run.edit_records(edit, "group_sample")

    assert codes_of(run) == []


def test_phases_after_the_end_contradict_the_end(run: TamperedRun) -> None:
    """The end is told 20 s too early: the drain was waited for after it."""

    def edit(record: Row) -> Row:
        is_end = record["name"] == "fence_run"
        return {**record, "at": record["at"] - 20 * SECOND} if is_end else record

    run.edit_records(edit, "phase")

    assert "s beyond fence_run" in reasons_of(run)


def test_a_fence_without_its_instant_is_of_no_known_run(run: TamperedRun) -> None:
    """Every version of the bench notes when the fence was taken."""
    run.edit_json("fence.json", lambda fence: {**fence, "fenced_at": None})

    assert "the fence has no time" in reasons_of(run)


def test_more_replicas_than_the_policy_allows_are_of_another_policy(run: TamperedRun) -> None:
    """The file policy.yaml has a ceiling of 2; the run went to 4 replicas."""
    run.edit_yaml("policy.yaml", _with_ceiling_2)

    assert "the policy allows 2" in reasons_of(run, status=run.judge().status)
    assert run.judge().status != "pass"


def test_the_hpa_reports_of_another_ceiling(run: TamperedRun) -> None:
    """Its own object allowed 20 replicas where the policy says 4."""

    def edit(found: dict[str, Row]) -> dict[str, Row]:
        for hpa in found["HorizontalPodAutoscaler"].values():
            hpa["spec"]["maxReplicas"] = 20
        return found

    run.edit_json("autoscaler.json", edit)

    assert "maxReplicas 20, applied 4" in reasons_of(run)


def _with_ceiling_2(policy: Row) -> Row:
    policy["spec"]["maxReplicaCount"] = 2
    return policy


def test_an_empty_group_does_no_work(run: TamperedRun) -> None:
    """The broker saw no member for 30 s in which thousands of messages were done."""

    def edit(record: Row) -> Row:
        is_inside = 5 < run.seconds(record["at"]) < 35
        return {**record, "state": "empty", "members": 0} if is_inside else record

    run.edit_records(edit, "group_sample")

    assert "reported no member" in reasons_of(run)


def test_a_record_of_another_year_is_of_no_run(run: TamperedRun) -> None:
    """Its instant lengthens nothing; it is counted as what it is, an unknown record."""
    [first, *_] = run.records("replica_sample")
    run.add_records({**first, "at": first["at"] + 10**18})

    measures = run.measure()

    assert measures.run_seconds < 600
    assert run.judge().status == "undetermined"


def test_a_folder_that_notes_a_tail_is_of_the_current_format(run: TamperedRun) -> None:
    """Without its marker it is not taken for an older one, which recorded less."""
    run.edit_json("manifest.json", lambda manifest: {**manifest, "tail": None})

    assert "no record of its members" in reasons_of(run)


def test_a_scaling_that_no_sample_shows_is_none(run: TamperedRun) -> None:
    """The autoscaler told of one pod less and one more while every sample shows four."""
    scaled = run.records("scaled")[0]
    extra = {"replicas_before": 4, "replicas_after": 3}
    run.add_records({**scaled, **extra, "at": run.at(30)})

    assert "4 to 3" in reasons_of(run, status=run.judge().status)
    assert run.judge().status != "pass"
