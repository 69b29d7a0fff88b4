"""Who scaled, and what was in force: a verdict belongs to the policy that the run applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.run_folder_builder import EPOCH, RunContent, quick_spike_run
from tests.fakes.tampered_run import Row, TamperedRun, slo

from lagbench.core.clocks import API_SERVER
from lagbench.core.measures.measures import Measures
from lagbench.core.telemetry.records_of_programs import HpaSync, KedaPoll, Record, Scaled
from lagbench.core.telemetry.records_of_recorder import (
    ClockOffset,
    HpaSample,
    PodSeen,
    ReplicasChanged,
)
from lagbench.results.measure_run import judge_run, measure_run

RECORDER = "recorder-ln44x6m9r8-4g64s"

END = 1e9

IDENTITY = {"lost", "duplicated", "reordered", "zombies"}


def outcome(run: TamperedRun) -> tuple[str, list[str]]:
    """Return the run's status, and the codes of the doubts about it."""
    return run.judge().status, [doubt.code for doubt in run.measure().doubts]


def set_samples(
    run: TamperedRun, kind: str, from_seconds: float, until_seconds: float, **fields: object
) -> None:
    """Set ``fields`` in the recorder's readings of [from_seconds, until_seconds)."""

    def edit(record: Row) -> Row:
        is_inside = from_seconds <= run.seconds(record["at"]) < until_seconds
        return {**record, **fields} if is_inside else record

    run.edit_records(edit, kind)


def scaled_by_hand(run: TamperedRun, manager: str) -> None:
    """Let a person scale to 4 at +8.5 s, before the sync that would have done it."""
    first = run.records("scaled")[0]["at"]
    run.edit_records(lambda r: None if r["at"] == first else r, "scaled")

    def edit(record: Row) -> Row:
        if record["replicas_after"] != 4:
            return record
        return {**record, "at": run.at(8.5), "manager": manager}

    run.edit_records(edit, "replicas_changed")
    set_samples(run, "replica_sample", 8.5, 9.8, spec=4, current=4)
    set_samples(run, "hpa_sync", 9, 10, spec_replicas=4, status_replicas=4)


def test_the_run_itself_has_no_doubt(run: TamperedRun) -> None:
    """Each change of replicas is a sync of the policy, and all that was read is as applied."""
    assert outcome(run) == ("pass", [])


def test_a_person_who_scales_is_no_policy(run: TamperedRun) -> None:
    """The SLOs hold, by a hand: undetermined, with the author and the instant."""
    scaled_by_hand(run, "kubectl")

    assert outcome(run) == ("undetermined", ["other_author"])
    (doubt,) = run.measure().doubts
    assert doubt.text == "1 to 4 replicas at +8.5 s: written by kubectl, not by the policy"
    assert slo(run.judge(), "flips").reason.endswith("in doubt: other_author")
    judged = {r.name: r.status for r in run.judge().slos if r.status != "not_judged"}
    assert {name for name, status in judged.items() if status == "pass"} == IDENTITY


def test_lost_messages_stay_lost_whoever_scaled(run: TamperedRun) -> None:
    """What became of messages does not depend on the author of a scaling."""
    scaled_by_hand(run, "kubectl")
    found = run.folder.read_json("accounting.json")
    fewer = {name: found[name] - 1 for name in ("processed_distinct", "processed_records")}
    run.set_accounting(lost=1, **fewer)

    assert run.judge().status == "fail"
    assert slo(run.judge(), "lost").status == "fail"
    assert slo(run.judge(), "reaction_seconds").status == "undetermined"


def test_a_change_that_nobody_reports_has_no_author(run: TamperedRun) -> None:
    """Samples show 1, then 4 replicas; autoscaler and watch say nothing of it."""
    run.drop_records("scaled", "replicas_changed", "kube_event", until_seconds=20)
    set_samples(run, "hpa_sample", -END, END, last_scaled_at=None)

    assert outcome(run) == ("undetermined", ["other_author"])


def test_on_a_cluster_the_status_of_the_hpa_names_its_step(run: TamperedRun) -> None:
    """The watch was broken, but the HPA says that it scaled to 4 in that second."""
    at = run.records("scaled")[0]["at"]
    run.drop_records("scaled", "replicas_changed", "kube_event", until_seconds=20)
    set_samples(run, "hpa_sample", 9.8, 25, desired=4, last_scaled_at=at // 10**9 * 10**9)

    assert outcome(run) == ("pass", [])


@pytest.mark.parametrize(
    ("before", "after", "codes"), [(0, 1, []), (4, 6, ["other_author"]), (2, 1, [])]
)
def test_keda_scales_to_and_from_zero_only(
    run: TamperedRun, before: int, after: int, codes: list[str]
) -> None:
    """Also to its floor; other numbers are the HPA's."""
    told = {"replicas_before": before, "replicas_after": after, "by": "keda"}
    run.edit_records(lambda r: {**r, **told} if r["replicas_after"] == 4 else r, "scaled")
    set_samples(run, "replica_sample", -END, 9.8, spec=before)
    set_samples(run, "replica_sample", 9.8, END, spec=after)
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
        ("hpa_sample", (-END, END), HIGHER),
        ("hpa_sample", (8, 12), HIGHER),
        ("hpa_sample", (20, 30), {"max_replicas": 3}),
        ("hpa_sample", (20, 30), {"min_replicas": 2}),
        ("scaled_object_sample", (20, 30), {"scales_at_records": 5000.0}),
        ("scaled_object_sample", (20, 30), {"group_target_records": 900.0}),
        ("scaled_object_sample", (20, 30), {"tolerance": 0.5}),
        ("scaled_object_sample", (12, END), PAUSED),
        ("scaled_object_sample", (20, 30), FALLBACK),
    ],
    ids=["target", "target-in-a-sync", "max", "min", "lag", "group", "tolerance", "pause", "fall"],
)
def test_another_policy_in_force_leaves_the_run_undetermined(
    run: TamperedRun, kind: str, span: tuple[float, float], fields: Row
) -> None:
    """The readings say so, with both values; the file in the folder is the applied one."""
    set_samples(run, kind, *span, **fields)

    assert outcome(run) == ("undetermined", ["other_policy"])
    assert slo(run.judge(), "lost").status == "pass"


def test_an_edit_that_no_sync_used_is_named_and_decides_nothing(run: TamperedRun) -> None:
    """Syncs were at +9.8, +25 and +40 s."""
    set_samples(run, "hpa_sample", 12, 16, **HIGHER)

    verdict = run.judge()

    assert (verdict.status, run.measure().doubts) == ("pass", ())
    assert sum("undone before a sync" in note for note in verdict.notes) == 1


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

    status, codes = outcome(run)

    assert (status, set(codes)) == ("undetermined", {"other_policy"})


def test_readings_that_failed_are_no_deleted_object(run: TamperedRun) -> None:
    """The API server was not reachable for 10 s: a gap says so."""
    for what, kind in (("hpa", "hpa_sample"), ("scaled_object", "scaled_object_sample")):
        run.drop_records(kind, from_seconds=20, until_seconds=30)
        gap = {"kind": "read_gap", "source": RECORDER, "what": what, "reason": "timed out"}
        run.add_records(*({**gap, "at": run.at(second)} for second in range(20, 30)))

    assert outcome(run) == ("pass", [])


def stored(run: TamperedRun, at_seconds: float, kind: str, **changes: object) -> Row:
    """Return the recorder's report of a stored scaling object."""
    found = run.folder.read_json("autoscaler.json")[kind]
    ((name, object_found),) = found.items()
    annotations = changes.pop("annotations", {})
    return {
        "kind": "scaling_object",
        "at": run.at(at_seconds),
        "source": RECORDER,
        "object_kind": kind,
        "name": name,
        "spec": {**object_found["spec"], **changes},
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
    run.add_records(same)
    assert outcome(run) == ("pass", [])

    run.add_records(stored(run, 12, kind, **changes), {**same, "at": run.at(16)})
    assert outcome(run) == ("pass", [])

    run.add_records(stored(run, 20, kind, **changes), {**same, "at": run.at(30)})
    assert outcome(run) == ("undetermined", ["other_policy"])


def test_an_edit_before_the_stream_is_in_force_from_its_start(run: TamperedRun) -> None:
    """The recorder sends an object when it changed, and this one changed 2 s before the stream."""
    run.add_records(stored(run, -2, "ScaledObject", cooldownPeriod=5))

    assert outcome(run) == ("undetermined", ["other_policy"])


def test_a_swapped_policy_of_another_kind_is_no_deleted_object(run: TamperedRun) -> None:
    """From +12 s on a plain HPA scales, so there is no ScaledObject any more."""
    stamp = {"source": "actions", "number": 0, "action": "swap_policy"}
    begun = {**stamp, "kind": "action_started", "targets": ["hpa"], "planned_at": run.at(12)}
    ended = {**stamp, "kind": "action_ended"}
    run.set_scenario(actions=[{"kind": "swap_policy", "at_seconds": 12, "policy": "hpa"}])
    run.add_records({**begun, "at": run.at(12)}, {**ended, "at": run.at(12.5)})
    hpa = run.folder.read_json("autoscaler.json")["HorizontalPodAutoscaler"]
    ((name, found),) = hpa.items()
    policy = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": found["spec"]}
    (run.folder.path / "policy-0.yaml").write_text(json.dumps(policy))
    run.drop_records("scaled_object_sample", from_seconds=12)

    codes = [doubt.code for doubt in run.measure().doubts]

    assert codes == []


SECOND, MILLISECOND = 1_000_000_000, 1_000_000

WATCH_NS = 5 * MILLISECOND


def on_cluster(content: RunContent) -> RunContent:
    """Return the same run without what only the embedded bench tells."""
    content.manifest["fidelity"] = "kubernetes"
    content.records = sorted(
        (reported for record in content.records for reported in as_reported(record)),
        key=lambda record: record.at,
    )
    return content


def as_reported(record: Any) -> list[Record]:
    """Return what a cluster's recorder would say instead of ``record``."""
    if isinstance(record, KedaPoll):
        return []
    if isinstance(record, Scaled):
        return [
            ReplicasChanged(
                at=record.at + WATCH_NS,
                source="recorder-0",
                target=record.target,
                replicas_before=record.replicas_before,
                replicas_after=record.replicas_after,
                manager="kube-controller-manager",
            )
        ]
    if isinstance(record, HpaSync):
        status = {name: value for name, value in record.metrics.items() if value is not None}
        return [
            HpaSample(
                at=record.at + 4 * WATCH_NS,  # after the scale
                source="recorder-0",
                name=record.hpa,
                desired=record.desired,
                current=record.status_replicas,
                metrics=[],
                conditions=[],
                totals=status,
            )
        ]
    if isinstance(record, PodSeen):
        ready_at = None if record.deleted_at is not None else whole(record.ready_at)
        return [
            replace(
                record,
                created_at=whole(record.created_at),
                ready_at=ready_at,
                precision_ns=SECOND,
            )
        ]
    return [record]


def whole(at: int | None) -> int | None:
    """Return the whole second of an instant."""
    return None if at is None else at // SECOND * SECOND


def clock(name: str, pods: list[str]) -> ClockOffset:
    """Return a clock within 4 ms of the recorder's."""
    return ClockOffset(
        at=EPOCH,
        source="recorder-0",
        clock=name,
        pods=pods,
        low_ns=-4 * MILLISECOND,
        high_ns=3 * MILLISECOND,
        answers=20,
        since_at=EPOCH,
    )


def measured(content: RunContent, folder: Path) -> Measures:
    """Return the measures of a run."""
    return measure_run(content.write(folder))


def test_the_chain_of_a_cluster_agrees_with_the_exact_one(tmp_path: Path) -> None:
    """Link by link the exact instant is within the precision that the cluster's link states."""
    exact = measured(quick_spike_run(), tmp_path / "exact").reaction
    content = on_cluster(quick_spike_run())
    pods = sorted({r.pod for r in content.records if isinstance(r, PodSeen)})
    content.records += [clock(API_SERVER, []), clock("node-1", [*pods, "producer-0"])]

    found = measured(content, tmp_path / "cluster").reaction

    assert found.is_complete, found.reason
    assert found.parts_sum_to_total
    assert found.pod == exact.pod
    for link, truth in zip(found.links, exact.links, strict=True):
        assert link.at is not None
        assert truth.at is not None
        assert link.precision_seconds is not None, link.name
        within = link.precision_seconds + (truth.precision_seconds or 0)
        assert abs(link.at - truth.at) / SECOND <= within, link.name
    assert found.clocks is not None
    for named in ("API server -0.004 to +0.003 s", "node-1 -0.004 to +0.003 s"):
        assert named in found.clocks.text


def test_without_clocks_the_chain_stands_and_states_no_precision(tmp_path: Path) -> None:
    """Parts are known, how exact those of other machines are is not; the verdict says so."""
    folder = on_cluster(quick_spike_run()).write(tmp_path)

    chain = measure_run(folder).reaction
    reaction = next(slo for slo in judge_run(folder).slos if slo.name == "reaction_seconds")

    assert chain.is_complete
    assert [link.name for link in chain.links if link.precision_seconds is None] == [
        "t0",
        *["t4", "t5", "t6", "t7", "t8"],
    ]
    assert "API server not bounded" in reaction.reason


@pytest.mark.parametrize("kind", ["processes", "simulated"])
def test_one_machine_has_one_clock(kind: str, tmp_path: Path) -> None:
    """What the recorder may say of clocks changes nothing there."""
    content = quick_spike_run()
    content.manifest["fidelity"] = kind
    content.records.append(clock(API_SERVER, []))

    clocks = measured(content, tmp_path).reaction.clocks

    assert clocks is not None
    assert clocks.is_one_clock
