"""Who scaled a run, and by which policy: another one leaves it undetermined."""

from __future__ import annotations

import json

import pytest
from tests.fakes.tampered_run import (
    SECOND,
    Row,
    TamperedRun,
    both,
    check,
    dropped,
    edited,
    records,
    slo,
)

PASS, FAIL, OPEN = "pass", "fail", "undetermined"
RECORDER = "recorder-ln44x6m9r8-4g64s"
IDENTITY = {"lost", "duplicated", "reordered", "zombies"}


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

    run.set_accounting(lost=1, **fewer)

    check(run, {"run": FAIL, "lost": FAIL, "reaction_seconds": OPEN})


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
