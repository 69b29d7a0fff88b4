"""Following what scales the consumers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from lagbench.adapters.kube.kube_client import Event
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import (
    HpaSample,
    KubeEvent,
    ReplicasChanged,
    ReplicasWatched,
    ScalingObject,
)
from lagbench.programs.recorder.scaling_watch import (
    EventWatch,
    OwnScalers,
    ReplicaWatch,
    Scaled,
    ScalerKind,
    ScalerWatch,
)

SECOND = 1_000_000_000
NINE_SECONDS_PAST_TEN = 1_795_255_209 * SECOND


def nothing() -> Any:
    """Yield no events: these watches are fed by hand."""
    return iter(())


def deployment(replicas: int, *, name: str = "consumer", **managers: str) -> dict[str, Any]:
    """Return a Deployment; ``managers``: who wrote replicas, with the second of it."""
    return {
        "metadata": {
            "name": name,
            "managedFields": [
                {
                    "manager": manager.replace("_", "-"),
                    "time": f"2026-11-21T10:00:{second}Z",
                    "fieldsV1": {"f:spec": {"f:replicas": {}}},
                }
                for manager, second in managers.items()
            ],
        },
        "spec": {"replicas": replicas},
    }


def test_a_change_of_wanted_replicas_is_reported_with_its_writer() -> None:
    """The list is the start; a change of the status alone is none.

    Without managed fields, as on localkube, the writer is not reported.
    """
    sent: list[Record] = []
    watch = ReplicaWatch(nothing, of(sent))

    watch.take("LISTED", {"items": [deployment(2, lagbench="01")]}, at=10)
    watch.take("MODIFIED", deployment(2, lagbench="01"), at=11)
    watch.take("MODIFIED", deployment(9, name="other"), at=12)
    watch.take("MODIFIED", deployment(6, lagbench="01", kube_controller_manager="07"), at=13)
    watch.take("MODIFIED", deployment(7), at=14)

    changes = [
        (r.at, r.target, r.replicas_before, r.replicas_after, r.manager)
        for r in sent
        if isinstance(r, ReplicasChanged)
    ]
    assert changes == [
        (13, "consumer", 2, 6, "kube-controller-manager"),
        (14, "consumer", 6, 7, ""),
    ]


def test_an_hpas_status_is_reported_when_it_changed() -> None:
    """The same status again is no news; another Deployment's HPA is none of ours."""
    sent: list[Record] = []
    watch = scaler_watch("HorizontalPodAutoscaler", sent, OwnScalers())

    def hpa(desired: int, target: str = "consumer") -> dict[str, Any]:
        return {
            "metadata": {"name": "h"},
            "spec": {"scaleTargetRef": {"name": target}},
            "status": {"desiredReplicas": desired},
        }

    watch.take("LISTED", {"items": [hpa(2), hpa(7, "other")]}, at=10)
    watch.take("MODIFIED", hpa(2), at=11)
    watch.take("MODIFIED", hpa(6), at=12)

    assert [(s.at, s.desired) for s in sent if isinstance(s, HpaSample)] == [(10, 2), (12, 6)]


def of(sent: list[Record], scalers: OwnScalers | None = None) -> Scaled:
    """Return the workload ``consumer``, whose records go to ``sent``; its API is not read."""
    return Scaled("consumer", sent.append, "recorder", Mock(), scalers=scalers or OwnScalers())


def scaler_watch(kind: ScalerKind, sent: list[Record], scalers: OwnScalers) -> ScalerWatch:
    """Return a watch of the scalers of ``consumer``."""
    return ScalerWatch(kind, nothing, of(sent, scalers))


def test_what_is_stored_of_a_scaler_is_reported_when_it_changed() -> None:
    """Spec and annotations, not a status; and that it is gone, was retargeted or deleted."""
    sent: list[Record] = []
    watch = scaler_watch("ScaledObject", sent, OwnScalers())

    def scaled(most: int, target: str = "consumer", **annotations: str) -> dict[str, Any]:
        return {
            "metadata": {"name": "s", "annotations": annotations},
            "spec": {"scaleTargetRef": {"name": target}, "maxReplicaCount": most},
            "status": {"lastActiveTime": len(sent)},
        }

    watch.take("LISTED", {"items": [scaled(4)]}, at=10)
    watch.take("MODIFIED", scaled(4), at=11)
    watch.take("MODIFIED", scaled(20), at=12)
    watch.take("MODIFIED", scaled(20, paused="true"), at=13)
    watch.take("MODIFIED", scaled(20, target="other"), at=14)
    watch.take("MODIFIED", scaled(4), at=15)
    watch.take("DELETED", scaled(4), at=16)
    watch.take("ADDED", scaled(5), at=17)
    watch.take("LISTED", {"items": []}, at=18)

    reported = {
        r.at: (r.spec and r.spec["maxReplicaCount"], len(r.annotations))
        for r in sent
        if isinstance(r, ScalingObject)
    }
    gone = dict.fromkeys((14, 16, 18), (None, 0))
    assert reported == {10: (4, 0), 12: (20, 0), 13: (20, 1), 15: (4, 0), 17: (5, 0), **gone}


def event_watch(sent: list[Record], scalers: OwnScalers, since_at: int = 0) -> EventWatch:
    """Return a watch of the events of ``consumer``."""
    return EventWatch(nothing, of(sent, scalers), since_at=since_at)


def own_scalers(hpa: str) -> OwnScalers:
    """Know an HPA of the workload, which the ScaledObject ``consumer`` owns."""
    scalers = OwnScalers()
    owner = {"kind": "ScaledObject", "name": "consumer"}
    scalers.learn(
        "HorizontalPodAutoscaler", {"metadata": {"name": hpa, "ownerReferences": [owner]}}
    )
    return scalers


def event(
    uid: str, kind: str, name: str, *, last: str, count: int = 1, sort: str = "Normal"
) -> dict[str, Any]:
    """Return a v1 Event at a second past 10:00."""
    return {
        "metadata": {"uid": uid, "creationTimestamp": "2026-11-21T10:00:00Z"},
        "involvedObject": {"kind": kind, "name": name},
        "type": sort,
        "reason": "SuccessfulRescale",
        "message": "New size: 6",
        "count": count,
        "firstTimestamp": "2026-11-21T10:00:09Z",
        "lastTimestamp": f"2026-11-21T10:00:{last}Z",
    }


def test_events_of_the_autoscaler_and_warnings_of_consumers_are_kept() -> None:
    """What ended before the recorder began, and what went well with a pod, is left out."""
    sent: list[Record] = []
    watch = event_watch(sent, own_scalers("h"), NINE_SECONDS_PAST_TEN + SECOND // 2)

    old = event("1", "HorizontalPodAutoscaler", "h", last="08")
    scaled = event("2", "HorizontalPodAutoscaler", "h", last="09")
    watch.take("LISTED", {"items": [old, scaled]}, at=10)
    watch.take("MODIFIED", scaled, at=11)
    watch.take("MODIFIED", event("2", "HorizontalPodAutoscaler", "h", last="24", count=2), at=12)
    watch.take("ADDED", event("3", "Pod", "consumer-1", last="30"), at=13)
    watch.take("ADDED", event("4", "Pod", "consumer-1", last="30", sort="Warning"), at=14)
    watch.take("ADDED", event("5", "Pod", "other-1", last="30", sort="Warning"), at=15)

    kept = [record for record in sent if isinstance(record, KubeEvent)]
    assert [(found.at, found.object_kind, found.count) for found in kept] == [
        (10, "HorizontalPodAutoscaler", 1),
        (12, "HorizontalPodAutoscaler", 2),
        (14, "Pod", 1),
    ]
    assert kept[0].last_at == NINE_SECONDS_PAST_TEN


def test_events_of_another_workloads_autoscaler_are_left_out() -> None:
    """Those of an HPA that is not known yet wait until it proves to scale the workload."""
    sent: list[Record] = []
    scalers = OwnScalers()
    events = event_watch(sent, scalers)
    hpas = scaler_watch("HorizontalPodAutoscaler", sent, scalers)
    kinds = ("HorizontalPodAutoscaler", "ScaledObject")
    for number, (kind, name) in enumerate((k, n) for k in kinds for n in ("own", "other")):
        events.take("ADDED", event(str(number), kind, name, last="09"), at=10)
    assert sent == []

    owner = {"kind": "ScaledObject", "name": "own"}
    for name, target in (("own", "consumer"), ("other", "elsewhere")):
        metadata = {"name": name, "ownerReferences": [owner | {"name": name}]}
        spec = {"scaleTargetRef": {"name": target}}
        hpas.take("ADDED", {"metadata": metadata, "spec": spec}, at=11)
    events.take("ADDED", event("8", kinds[0], "own", last="12"), at=13)
    events.take("ADDED", event("9", kinds[0], "other", last="12"), at=13)

    kept = [(r.at, r.object_kind, r.object_name) for r in sent if isinstance(r, KubeEvent)]
    assert sorted(kept) == [(10, kinds[0], "own"), (10, kinds[1], "own"), (13, kinds[0], "own")]


def test_an_event_of_the_newer_form_says_the_same() -> None:
    """EventTime and a series instead of first, last and count."""
    sent: list[Record] = []
    watch = event_watch(sent, own_scalers("h"))
    newer = event("1", "ScaledObject", "consumer", last="09") | {
        "firstTimestamp": None,
        "lastTimestamp": None,
        "count": None,
        "eventTime": "2026-11-21T10:00:09.250000Z",
        "series": {"count": 4, "lastObservedTime": "2026-11-21T10:00:10.000000Z"},
    }

    watch.take("ADDED", newer, at=10)

    (found,) = sent
    assert isinstance(found, KubeEvent)
    assert found.first_at == NINE_SECONDS_PAST_TEN + SECOND // 4
    assert (found.last_at, found.count) == (NINE_SECONDS_PAST_TEN + SECOND, 4)


@pytest.mark.parametrize(
    ("then", "is_whole"),
    [
        ([("MODIFIED", deployment(6))], True),
        ([], True),
        ([("ERROR", {"message": "too old resource version"})], False),
        ([ConnectionError("reset")], False),
    ],
)
def test_only_a_watch_that_ended_in_order_says_that_it_was_whole(
    then: list[Any], *, is_whole: bool
) -> None:
    """Since its list; of one that broke or that the server rejected nothing is known."""
    sent: list[Record] = []
    has_listed_again = threading.Event()
    lists = iter([True])

    def events() -> Iterator[Event]:
        if next(lists, None) is None:
            has_listed_again.set()
            return
        yield "LISTED", {"items": [deployment(2)]}
        for event in then:
            if isinstance(event, Exception):
                raise event
            yield event

    watch = ReplicaWatch(events, of(sent))
    watch.start()
    assert has_listed_again.wait(60)
    watch.stop()
    watch.join(60)

    found = [record for record in sent if isinstance(record, ReplicasWatched)]
    assert len(found) == is_whole
    assert all(record.since_at <= record.at for record in found)
