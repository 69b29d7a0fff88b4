"""The workers on an API in memory and with readings that a test sets: no threads, no waits."""

from __future__ import annotations

import pytest
from tests.fakes.autoscaler_world import HPA_KEY, KEY, scaled_object, world

from lagbench.adapters.kube.cluster_protocol import HPA, SCALED_OBJECT
from lagbench.core.telemetry.records import HpaSync, KedaPoll, Scaled
from lagbench.programs.autoscaler.clocks import HpaClock


def test_the_first_step_makes_the_hpa_and_polls() -> None:
    """After one step the HPA is there, the object is Ready, and the next poll is 10 s away."""
    here = world(scaled_object())
    here.source.lag = 25

    delay = here.worker.step()

    assert delay == pytest.approx(10)
    assert here.cluster.get(HPA, ("n", "keda-hpa-w"))["spec"]["minReplicas"] == 1
    assert here.condition(SCALED_OBJECT, KEY, "Ready")["reason"] == "ScaledObjectReady"
    assert here.condition(SCALED_OBJECT, KEY, "Active")["status"] == "True"
    assert [type(record) for record in here.records.sent] == [KedaPoll]
    status = here.cluster.get(SCALED_OBJECT, KEY)["status"]
    assert status["originalReplicaCount"] == 1
    assert status["triggersActivity"] == {"s0-kafka-t": {"isActive": True}}


def test_lag_wakes_the_target_and_the_hpa_takes_over() -> None:
    """0 to 1 is KEDA's event, 1 to 3 the HPA's; both are in the telemetry."""
    here = world(scaled_object(), replicas=0)
    here.source.lag = 25
    here.worker.step()
    here.hpa_worker().step()

    assert here.cluster.scales[KEY] == 3
    moves = [
        (r.by, r.replicas_before, r.replicas_after)
        for r in here.records.sent
        if isinstance(r, Scaled)
    ]
    assert moves == [("keda", 0, 1), ("hpa", 1, 3)]
    assert "KEDAScaleTargetActivated" in [reason for reason, _ in here.cluster.events("w")]
    sync = next(record for record in here.records.sent if isinstance(record, HpaSync))
    assert (sync.metrics, sync.proposal, sync.desired) == ({"s0-kafka-t": 25.0}, 3, 3)
    status = here.cluster.get(HPA, ("n", "keda-hpa-w"))["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (1, 3)
    assert status["currentMetrics"][0]["external"]["current"] == {"averageValue": "25"}


def test_a_failing_source_changes_nothing_and_is_no_zero() -> None:
    """The HPA says FailedGetExternalMetric, keeps its replicas, and recovers with the source."""
    here = world(scaled_object(minReplicaCount=1), replicas=4)
    here.worker.step()
    hpa = here.hpa_worker()
    here.source.fails_reading = True
    hpa.step()
    failed = here.condition(HPA, ("n", "keda-hpa-w"), "ScalingActive")
    here.source.fails_reading, here.source.lag = False, 60
    here.time.seconds += 15
    hpa.step()

    assert failed["reason"] == "FailedGetExternalMetric"
    assert here.cluster.scales[KEY] == 6
    assert any(
        reason == "FailedComputeMetricsReplicas" for reason, _ in here.cluster.events("keda-hpa-w")
    )


def test_an_unreachable_source_at_creation_makes_no_hpa_and_is_retried_after_5_and_10_s() -> None:
    """As with KEDA, nothing is built until every trigger's source answers."""
    here = world(scaled_object())
    here.source.fails_building = True
    first = here.worker.step()
    here.time.seconds += first
    second = here.worker.step()
    here.source.fails_building = False
    here.time.seconds += second
    ready_before = here.condition(SCALED_OBJECT, KEY, "Ready")
    here.worker.step()

    assert (first, second) == (pytest.approx(5), pytest.approx(10))
    assert "no broker answers" in ready_before["message"]
    assert here.condition(SCALED_OBJECT, KEY, "Ready")["status"] == "True"
    assert here.cluster.get(HPA, ("n", "keda-hpa-w"))


def test_a_missing_target_fails_the_check_until_it_is_there() -> None:
    """A ScaledObject may be applied before its Deployment."""
    here = world(scaled_object(), replicas=None)
    delay = here.worker.step()
    failed = here.condition(SCALED_OBJECT, KEY, "Ready")
    here.cluster.scales[KEY] = 2
    here.time.seconds += delay
    here.worker.step()

    assert failed["reason"] == "ScaledObjectCheckFailed"
    assert 'deployments.apps "w" not found' in failed["message"]
    assert here.condition(SCALED_OBJECT, KEY, "Ready")["status"] == "True"


def test_the_younger_of_two_objects_on_one_target_is_refused() -> None:
    """The second ScaledObject on a Deployment names the first as its owner."""
    second = scaled_object()
    here = world(second)
    first = scaled_object()
    first["metadata"] = {
        "name": "a",
        "namespace": "n",
        "creationTimestamp": "2025-01-01T00:00:00Z",
    }
    here.context.directory.scaled_objects = {
        **here.context.directory.scaled_objects,
        ("n", "a"): first,
    }
    here.worker.step()

    message = here.condition(SCALED_OBJECT, KEY, "Ready")["message"]
    assert "'a'" in message


def test_a_changed_object_changes_its_hpa_in_place_and_the_same_again_does_not() -> None:
    """Only a difference in meaning is written."""
    here = world(scaled_object())
    here.worker.step()
    changed = here.cluster.get(SCALED_OBJECT, KEY)
    uid = here.cluster.get(HPA, ("n", "keda-hpa-w"))["metadata"]["uid"]
    changed["spec"]["maxReplicaCount"] = 7
    here.worker.update(changed)
    here.worker.step()
    again = {**changed, "status": {}}
    here.worker.update(again)
    here.worker.step()

    hpa = here.cluster.get(HPA, ("n", "keda-hpa-w"))
    assert (hpa["spec"]["maxReplicas"], hpa["metadata"]["uid"]) == (7, uid)
    assert here.cluster.calls.count("replace HorizontalPodAutoscaler") == 1


def test_a_phase_is_fixed_drawn_or_one_period() -> None:
    """The first sync of an HPA comes after the given wait, a seeded draw, or a whole period."""
    drawn = HpaClock(15.0, seed=7)

    assert HpaClock(15.0).first_delay_seconds("n/a") == 15.0
    assert HpaClock(15.0, first_sync_seconds=4.0).first_delay_seconds("n/a") == 4.0
    assert drawn.first_delay_seconds("n/a") == HpaClock(15.0, seed=7).first_delay_seconds("n/a")
    assert drawn.first_delay_seconds("n/a") != drawn.first_delay_seconds("n/b")
    assert 0 <= drawn.first_delay_seconds("n/a") <= 15


def test_an_hpa_that_someone_deleted_or_edited_is_mended() -> None:
    """The owner makes it as the ScaledObject says; the loop and its scalers continue."""
    here = world(scaled_object())
    here.worker.step()
    here.cluster.delete(HPA, HPA_KEY)
    here.worker.mend_hpa()
    here.worker.step()
    here.cluster.patch(HPA, HPA_KEY, {"spec": {"maxReplicas": 3}})
    here.worker.mend_hpa()
    here.worker.step()

    assert here.hpa()["spec"]["maxReplicas"] == 100
    assert here.worker.hpa_name == "keda-hpa-w"
    assert here.reasons().count("KEDAScalersStarted") == 2  # the scaler, and the watch


def test_an_object_has_its_own_sync_and_tolerance() -> None:
    """The annotations reach the HPA: a sync 5 s later, and 3 replicas for 2.1 thresholds."""
    made = scaled_object(minReplicaCount=2)
    made["metadata"]["annotations"] = {
        "lagbench.io/hpa-sync-seconds": "5",
        "lagbench.io/hpa-tolerance": "0",
    }
    here = world(made, replicas=2)
    here.source.lag = 21
    here.worker.step()

    delay = here.hpa_worker().step()

    assert delay == 5
    assert here.cluster.scales[KEY] == 3


def test_within_the_tolerance_of_kubernetes_nothing_changes() -> None:
    """Without the annotations 2.1 thresholds are within 10 % of two, for 15 s."""
    here = world(scaled_object(minReplicaCount=2), replicas=2)
    here.source.lag = 21
    here.worker.step()

    delay = here.hpa_worker().step()

    assert delay == 15
    assert here.cluster.scales[KEY] == 2
