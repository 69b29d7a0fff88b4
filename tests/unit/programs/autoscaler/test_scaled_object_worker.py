"""A ScaledObject's worker on an API in memory, with readings that a test sets: no threads."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.autoscaler_world import HPA_KEY, KEY, World, kafka, scaled_object, world
from tests.fakes.cluster import FakeCluster

from lagbench.adapters.kube.followed_cluster import EVENT, HPA, SCALED_OBJECT
from lagbench.core.hpa.controller_flags import KUBERNETES_ANNOTATION
from lagbench.core.telemetry.records_of_programs import KedaPoll
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.__main__ import routes_of
from lagbench.programs.autoscaler.instead_of_keda import Operator
from lagbench.programs.autoscaler.object_worker import EventRecorder


def running(*, lag: int = 60, replicas: int = 1, **spec: object) -> World:
    """Return a world whose object is Ready and polled."""
    here = world(scaled_object(**spec), replicas=replicas)
    here.source.lag = lag
    here.worker.step()
    return here


def test_the_first_step_makes_the_hpa_and_polls() -> None:
    """After one step the HPA is there, the object is Ready, and the next poll is 10 s away."""
    here = world(scaled_object())
    here.source.lag = 25

    assert here.worker.step() == pytest.approx(10)
    assert here.hpa()["spec"]["minReplicas"] == 1
    assert here.shown("Ready") == "True:ScaledObjectReady"
    assert here.shown("Active") == "True:ScalerActive"
    assert [type(record) for record in here.records.sent] == [KedaPoll]
    status = here.status()
    assert (status["hpaName"], status["originalReplicaCount"]) == ("keda-hpa-w", 1)
    assert status["externalMetricNames"] == ["s0-kafka-t"]


def test_an_unreachable_source_at_creation_makes_no_hpa_and_is_retried_after_5_and_10_s() -> None:
    """As with KEDA, nothing is built until every trigger's source answers."""
    here = world(scaled_object())
    here.source.fails_building = True
    first = here.worker.step()
    here.time.seconds += first
    second = here.worker.step()
    before, had_hpa = here.shown("Ready"), here.has_hpa()
    here.source.fails_building = False
    here.after(second)

    assert (first, second) == (pytest.approx(5), pytest.approx(10))
    assert (before, had_hpa) == ("False:ScaledObjectCheckFailed", False)
    assert ("KEDAScalerFailed", "no broker answers") in here.cluster.events("w")
    assert here.shown("Ready") == "True:ScaledObjectReady"
    assert here.has_hpa()


def test_a_topic_that_is_gone_brings_the_fallback_which_the_status_shows() -> None:
    """Both clocks count up to the threshold; with the topic the counters begin again."""
    here = running(
        lag=30, replicas=3, minReplicaCount=1, fallback={"failureThreshold": 3, "replicas": 6}
    )
    hpa = here.hpa_worker()
    here.source.failing = {0}
    for _ in range(3):
        here.time.seconds += 15
        hpa.step()
        here.after(10)
    at_fallback = here.shown("Fallback"), here.cluster.scales[KEY]
    here.source.failing = set()
    here.after(10)

    assert at_fallback == ("True:FallbackExists", 6)
    assert here.status()["health"] == {"s0-kafka-t": {"numberOfFailures": 0, "status": "Happy"}}
    assert here.shown("Fallback") == "False:NoFallbackFound"


def test_a_missing_target_fails_the_check_until_it_is_there() -> None:
    """A ScaledObject may be applied before its Deployment."""
    here = world(scaled_object(), replicas=None)
    delay = here.worker.step()
    before = here.shown("Ready")
    here.cluster.scales[KEY] = 2
    here.after(delay)

    assert before == "False:ScaledObjectCheckFailed"
    assert here.shown("Ready") == "True:ScaledObjectReady"


@pytest.mark.parametrize(
    ("name", "kind", "created", "owner", "is_refused"),
    [
        ("a", SCALED_OBJECT, "2025-01-01T00:00:00Z", None, True),
        ("a", SCALED_OBJECT, "2027-01-01T00:00:00Z", None, False),
        ("w", HPA, "2027-01-01T00:00:00Z", None, True),
        ("keda-hpa-a", HPA, "2025-01-01T00:00:00Z", "ScaledObject", False),
    ],
)
def test_a_target_has_one_owner(
    name: str, kind: Any, created: str, owner: str | None, is_refused: bool
) -> None:
    """The younger of two ScaledObjects waits, and any of them for a foreign HPA."""
    here, other = world(scaled_object()), scaled_object()
    other["metadata"] = {
        "name": name,
        "namespace": "n",
        "creationTimestamp": created,
        "ownerReferences": [{"kind": owner}] if owner else [],
    }
    here.context.objects[kind] = {**here.context.objects[kind], ("n", name): other}
    here.worker.step()

    message = here.condition(SCALED_OBJECT, KEY, "Ready")["message"]
    assert (f"'{name}'" in message) is is_refused
    assert here.has_hpa() is not is_refused


def test_a_changed_object_changes_its_hpa_in_place_and_the_same_again_does_not() -> None:
    """Only a difference in meaning is written."""
    here = running()
    uid = here.hpa()["metadata"]["uid"]
    here.edit({"spec": {"maxReplicaCount": 7}})
    here.worker.step()
    here.worker.update({**here.cluster.get(SCALED_OBJECT, KEY), "status": {}})
    here.worker.step()

    assert (here.hpa()["spec"]["maxReplicas"], here.hpa()["metadata"]["uid"]) == (7, uid)
    assert here.cluster.calls.count("replace HorizontalPodAutoscaler") == 1


@pytest.mark.parametrize(("restores", "replicas"), [(True, 2), (False, 6)])
def test_a_deletion_takes_the_hpa_along_and_restores_the_target(
    restores: bool, replicas: int
) -> None:
    """With restoreToOriginalReplicaCount a finalizer holds the object until 2 are set again."""
    here = running(replicas=2, advanced={"restoreToOriginalReplicaCount": restores})
    here.cluster.scales[KEY] = 6
    stored = here.cluster.get(SCALED_OBJECT, KEY)["metadata"].get("finalizers")
    here.edit({"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}})
    here.worker.step()
    here.worker.finish()

    assert stored == (["finalizer.keda.sh"] if restores else None)
    assert "finalizers" not in here.cluster.get(SCALED_OBJECT, KEY)["metadata"]
    assert (here.has_hpa(), here.cluster.scales[KEY]) == (False, replicas)


def test_a_refused_trigger_is_told_and_mending_it_helps() -> None:
    """No HPA is made until the trigger is right."""
    here = running(triggers=[kafka(lagThreshold="0")])
    refused, had_hpa = here.shown("Ready"), here.has_hpa()
    here.edit({"spec": {"triggers": [kafka()]}})
    here.worker.step()

    assert (refused, had_hpa) == ("False:ScaledObjectCheckFailed", False)
    assert any("lagThreshold" in message for _, message in here.cluster.events("w"))
    assert (here.shown("Ready"), here.has_hpa()) == ("True:ScaledObjectReady", True)


def test_an_hpa_that_someone_deleted_or_edited_is_mended() -> None:
    """The owner makes it as the ScaledObject says; the loop and its scalers continue."""
    here = running()
    here.cluster.delete(HPA, HPA_KEY)
    here.worker.reconsider(HPA, HPA_KEY)
    here.worker.step()
    here.cluster.patch(HPA, HPA_KEY, {"spec": {"maxReplicas": 3}})
    here.worker.reconsider(HPA, HPA_KEY)
    here.worker.step()

    assert here.hpa()["spec"]["maxReplicas"] == 100
    assert len(here.source.passwords) == 1  # the one scaler that was built


def test_the_operator_has_a_worker_for_each_object_that_is_there() -> None:
    """One that is created again gets a new worker, and an HPA that is gone is made again."""
    here = world(scaled_object())
    operator = Operator(here.context)
    snapshot = {KEY: here.cluster.get(SCALED_OBJECT, KEY)}
    operator.see(SCALED_OBJECT, snapshot)
    first = operator.workers[SCALED_OBJECT][KEY]
    operator.see(SCALED_OBJECT, snapshot)
    kept = operator.workers[SCALED_OBJECT][KEY]
    again = {**snapshot[KEY], "metadata": {**snapshot[KEY]["metadata"], "uid": "another"}}
    operator.see(SCALED_OBJECT, {KEY: again})
    second = operator.workers[SCALED_OBJECT][KEY]
    assert not operator.is_ready
    operator.see(SCALED_OBJECT, {})
    operator.see(HPA, {})

    assert first is kept is not second
    assert operator.workers[SCALED_OBJECT] == {}
    assert operator.is_ready
    operator.stop()


@pytest.mark.parametrize("value", ["true", "yes"])
def test_paused_removes_the_hpa_and_leaves_the_replicas_until_it_is_resumed(value: str) -> None:
    """Any value but a false one pauses; Ready stays True, and nothing is served."""
    here = running(replicas=3)
    uid = here.hpa()["metadata"]["uid"]
    here.annotate(paused=value)
    here.after(1)
    here.source.lag = 0
    here.after(600)

    assert (here.has_hpa(), here.cluster.scales[KEY]) == (False, 3)
    assert here.shown("Paused") == "True:ScaledObjectPaused"
    assert here.shown("Ready") == "True:ScaledObjectReady"
    with pytest.raises(NotReady):
        here.context.read_metric_milli(KEY, "s0-kafka-t")

    here.annotate(paused="false")
    here.after(1)
    assert here.hpa()["metadata"]["uid"] != uid
    assert here.shown("Paused") == "False:ScaledObjectUnpaused"


@pytest.mark.parametrize(
    ("count", "replicas", "ready"), [("7", 7, "True:Scaled"), ("two", 2, "False:ScaledObjectCheck")]
)
def test_a_paused_count_holds_even_a_broken_object(count: str, replicas: int, ready: str) -> None:
    """The triggers of a paused object are not looked at; a count that is no number is told."""
    manifest = scaled_object(triggers=[{"type": "kafka", "metadata": {"lagThreshold": "0"}}])
    manifest["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"] = count
    here = world(manifest, replicas=2)
    here.worker.step()

    assert here.cluster.scales[KEY] == replicas
    assert here.status().get("pausedReplicaCount") == (7 if count == "7" else None)
    assert here.shown("Ready").startswith(ready)


def test_pausing_one_direction_changes_the_hpa_in_place() -> None:
    """The loop continues; the side is Disabled, and given back when the annotation goes."""
    here = running()
    uid = here.hpa()["metadata"]["uid"]
    here.annotate(paused_scale_in="true")
    here.after(1)
    held = here.hpa()["spec"]["behavior"]["scaleDown"]["selectPolicy"]
    shown = here.shown("Paused")
    here.annotate(paused_scale_in=None)
    here.after(1)

    assert (held, shown) == ("Disabled", "True:ScaledObjectPaused")
    assert "behavior" not in here.hpa()["spec"]
    assert here.hpa()["metadata"]["uid"] == uid
    assert len(here.source.passwords) == 1  # its scalers stay


def test_a_repetition_of_a_dropped_event_is_a_first_one() -> None:
    """The same text raises the count; when the server has dropped the event it is written again."""
    cluster, about = FakeCluster(), {"apiVersion": HPA[0], "kind": HPA[1]}
    hpa = {**about, "metadata": {"name": "hpa", "namespace": "n", "uid": "1"}}
    recorder = EventRecorder(cluster, "", lambda: 0)
    for _ in range(2):
        recorder.record(hpa, "Warning", "FailedGetMetric", "text")
    ((place, event),) = cluster.objects.items()
    assert (event["count"], event["source"]) == (2, {"component": "horizontal-pod-autoscaler"})

    cluster.delete(EVENT, place[1])
    for _ in range(2):
        recorder.record(hpa, "Warning", "FailedGetMetric", "text")

    (event,) = cluster.objects.values()
    assert event["count"] == 2


@pytest.mark.parametrize(("is_ready", "status", "value"), [(True, 200, "1"), (False, 503, "0")])
def test_its_gauge_says_what_its_probe_says(is_ready: bool, status: int, value: str) -> None:
    """A scraper gets one gauge, 1 when ready and 0 when not, and always an answer."""
    operator: Any = SimpleNamespace(is_ready=is_ready)
    routes = routes_of(operator)
    code, body = routes["/metrics"]()

    assert (routes["/ready"]()[0], code) == (status, 200)
    assert body.decode().splitlines() == [
        "# TYPE lagbench_autoscaler_ready gauge",
        f"lagbench_autoscaler_ready {value}",
    ]


@pytest.mark.parametrize(("version", "replicas"), [("1.36", 1), ("1.37", 3)])
def test_a_changed_hpa_is_synced_at_once_from_kubernetes_1_37_on(
    version: str, replicas: int
) -> None:
    """Five seconds after a sync its target changes; the next planned sync stays where it is."""
    manifest = scaled_object(maxReplicaCount=9)
    manifest["metadata"]["annotations"][KUBERNETES_ANNOTATION] = version
    here = world(manifest)
    here.source.lag = 10
    here.worker.step()
    hpa = here.hpa_worker()
    hpa.step()
    here.time.seconds += 5
    here.source.lag = 30
    changed = deepcopy(here.hpa())
    changed["spec"]["metrics"][0]["external"]["target"]["averageValue"] = "10001m"

    hpa.update(changed)

    assert hpa.step() == pytest.approx(10)
    assert here.cluster.scales[KEY] == replicas


@pytest.mark.parametrize("call", ["get_scale", "replace"])
def test_the_metric_is_served_while_an_object_is_built_anew(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """An HPA's clock does not wait, and Kubernetes 1.37 syncs as soon as the HPA is replaced."""
    here = running(lag=60)
    read, original = list[int](), getattr(here.cluster, call)

    def read_first(*arguments: object) -> object:
        read.append(here.context.read_metric_milli(KEY, "s0-kafka-t"))
        return original(*arguments)

    here.edit({"spec": {"maxReplicaCount": 7}})
    with monkeypatch.context() as patched:
        patched.setattr(here.cluster, call, read_first)
        here.worker.step()

    assert set(read) == {60_000}
    assert here.context.read_metric_milli(KEY, "s0-kafka-t") == 60_000
