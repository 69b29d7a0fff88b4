"""The controller on a cluster that has KEDA: its HPAs in memory, and never two controllers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.fakes.autoscaler_world import HPA_KEY, KEY, World, scaled_object, stored, world
from tests.fakes.cluster import FakeCluster

from lagbench.adapters.kube.followed_cluster import (
    EVENT,
    HPA,
    SCALED_OBJECT,
    ClusterError,
    Manifest,
)
from lagbench.core.hpa.controller_flags import KUBERNETES_ANNOTATION
from lagbench.core.hpa.hpa_sync import Condition
from lagbench.core.keda.loop.keda_hpa import CONTROLLER, SCALED_BY, as_driven
from lagbench.core.keda.object.scaled_object_spec import PAUSED
from lagbench.core.telemetry.records_of_programs import HpaSync, Scaled
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.autoscaler.__main__ import parse_options
from lagbench.programs.autoscaler.hpa_worker import HpaWorker
from lagbench.programs.autoscaler.instead_of_keda import Handover, InsteadOfKeda, require_kinds
from lagbench.programs.autoscaler.object_worker import EventRecorder, StatusWriter

MARKS = {SCALED_BY: CONTROLLER, PAUSED: "true"}


@dataclass
class Guard:
    """A handover with a clock that a test sets, and what it rejected."""

    seconds: float = 0.0
    refused: list[str] = field(default_factory=list)
    handover: Handover = field(init=False)

    def __post_init__(self) -> None:
        """Make the handover."""
        self.handover = Handover(lambda e: self.refused.append(str(e)), lambda: self.seconds)

    def sees(self, manifest: Manifest, *hpas: Manifest) -> bool:
        """Show one object and the HPAs; return whether it may be driven."""
        self.handover.see(HPA, {(h["metadata"]["namespace"], "h"): h for h in hpas})
        return KEY in (self.handover.see(SCALED_OBJECT, {KEY: manifest}) or {})


def handed_over(**annotations: str) -> Manifest:
    """Return a ScaledObject with these annotations, by default both that hand it over."""
    manifest = scaled_object()
    manifest["metadata"]["annotations"] = annotations or MARKS
    return manifest


def hpa_on_w() -> Manifest:
    """Return KEDA's HPA on the same target."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}
    return {
        "metadata": {"name": "keda-hpa-w", "namespace": "n"},
        "spec": {"scaleTargetRef": target},
    }


def standing_in(*, replicas: int = 1) -> World:
    """Return a world whose object KEDA has paused and this controller drives."""
    guard, manifest = Guard(), handed_over()
    manifest["status"] = {"conditions": [{"type": "Paused", "status": "True"}]}
    here = world(
        manifest, replicas=replicas, through=lambda real: InsteadOfKeda(real, guard.handover)
    )
    stored = here.cluster.get(SCALED_OBJECT, KEY)
    assert guard.sees(stored)
    here.worker.update(as_driven(stored))
    return here


def leaving() -> Manifest:
    """Return an object that is being deleted, which KEDA's finalizer may hold for a while."""
    manifest = handed_over()
    manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return manifest


UNPAUSED = {SCALED_BY: CONTROLLER}

# An object and the HPAs of its target as they are seen in turn; whether the object is driven at
# the end; a word of what ends the program.
SEEN: dict[str, tuple[list[tuple[Manifest, list[Manifest]]], bool, str]] = {
    "KEDA's": ([(handed_over(other="x"), [])], False, ""),
    "paused for KEDA alone": ([(handed_over(**{PAUSED: "true"}), [])], False, ""),
    "handed over": ([(handed_over(), [])], True, ""),
    "not paused": ([(handed_over(**UNPAUSED), [])], False, "not paused"),
    "HPA still there": ([(handed_over(), [hpa_on_w()])], False, ""),
    "HPA gone": ([(handed_over(), [hpa_on_w()]), (handed_over(), [])], True, ""),
    "HPA came": ([(handed_over(), []), (handed_over(), [hpa_on_w()])], False, "HPA keda-hpa-w"),
    "pause taken away": ([(handed_over(), []), (handed_over(**UNPAUSED), [])], False, "not paused"),
    "driven to its deletion": ([(handed_over(), []), (leaving(), [])], True, ""),
    "found in deletion": ([(leaving(), [])], False, ""),
}


@pytest.mark.parametrize("name", SEEN)
def test_one_target_has_one_controller(name: str) -> None:
    """Only what is handed over is driven, and a second controller ends the program."""
    guard = Guard()
    seen, is_driven, refusal = SEEN[name]

    assert [guard.sees(manifest, *hpas) for manifest, hpas in seen][-1] is is_driven
    assert len(guard.refused) == bool(refusal)
    assert refusal in "".join(guard.refused)


def test_keda_has_fifteen_seconds_to_delete_its_hpa() -> None:
    """The object waits; then the message names the HPA that stays."""
    guard = Guard()
    guard.sees(handed_over(), hpa_on_w())
    guard.seconds = 14.0
    guard.handover.look_again()
    assert guard.refused == []
    guard.seconds = 16.0
    guard.handover.look_again()

    assert "HPA keda-hpa-w " in guard.refused[0]


def test_nothing_is_driven_before_the_hpas_are_known() -> None:
    """A target may have an HPA that was not listed yet."""
    assert Guard().handover.see(SCALED_OBJECT, {KEY: handed_over()}) is None


def test_hpas_stay_in_memory_and_scale_all_the_same() -> None:
    """The cluster gets the new count and an event about the ScaledObject, but no HPA."""
    here = standing_in(replicas=1)
    here.source.lag = 25
    here.worker.step()
    own = here.context.cluster
    hpa = HpaWorker(own.get(HPA, HPA_KEY), here.context)
    here.time.seconds += 15
    hpa.step()

    assert here.cluster.scales[KEY] == 3
    assert not here.has_hpa()
    assert own.get(HPA, HPA_KEY)["status"]["desiredReplicas"] == 3
    events = [item for (kind, _), item in here.cluster.objects.items() if kind == EVENT]
    assert {item["involvedObject"]["kind"] for item in events} == {"ScaledObject"}
    assert any(item["reason"] == "SuccessfulRescale" for item in events)


def test_of_the_scaled_object_only_the_status_is_written() -> None:
    """No label and no finalizer is added, and KEDA's Paused condition stays."""
    here = standing_in()
    here.worker.step()
    stored = here.cluster.get(SCALED_OBJECT, KEY)

    assert stored["metadata"].get("labels") is None
    assert stored["metadata"].get("finalizers") is None
    found = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
    assert (found["Ready"], found["Paused"]) == ("True", "True")


def test_a_status_without_a_pause_of_kedas_gets_none() -> None:
    """Where no operator runs, nobody says Paused."""
    guard, real = Guard(), FakeCluster()
    stored = real.put(handed_over())
    guard.sees(stored)
    writer = StatusWriter(InsteadOfKeda(real, guard.handover), SCALED_OBJECT, stored)

    writer.write({}, [Condition("Paused", "False"), Condition("Ready", "True")])

    conditions = real.get(SCALED_OBJECT, KEY)["status"]["conditions"]
    assert [c["type"] for c in conditions] == ["Ready"]


def test_an_object_that_is_handed_back_keeps_its_replicas() -> None:
    """The HPA in memory goes; the count, the finalizers and the object stay."""
    here = standing_in(replicas=7)
    here.source.lag = 70
    here.worker.step()
    here.cluster.patch(SCALED_OBJECT, KEY, {"metadata": {"finalizers": ["finalizer.keda.sh"]}})
    here.context.objects[SCALED_OBJECT] = {}
    here.worker.stop()
    here.worker.finish()

    with pytest.raises(ClusterError):
        here.context.cluster.get(HPA, HPA_KEY)
    assert here.cluster.scales[KEY] == 7
    assert here.cluster.get(SCALED_OBJECT, KEY)["metadata"]["finalizers"] == ["finalizer.keda.sh"]


def test_events_of_an_unknown_hpa_are_written_as_they_are() -> None:
    """The event of an HPA that has just gone is still told."""
    real = FakeCluster()
    cluster = InsteadOfKeda(real, Guard().handover)
    about = {**hpa_on_w(), "apiVersion": HPA[0], "kind": HPA[1]}

    EventRecorder(cluster, CONTROLLER, lambda: 0).record(about, "Normal", "Reason", "text")

    assert real.events("keda-hpa-w") == [("Reason", "text")]


def test_a_cluster_without_kedas_definitions_is_refused() -> None:
    """The message says what to install."""

    class Bare(FakeCluster):
        def list(self, kind: Any, namespace: str, label_selector: str) -> list[Manifest]:
            raise ClusterError("no matches for kind ScaledObject", status=404)

    with pytest.raises(NotReady, match="CustomResourceDefinitions"):
        require_kinds(Bare(), "n")


def test_standing_in_needs_a_namespace() -> None:
    """The rest of the cluster stays KEDA's."""
    with pytest.raises(WrongInput, match="--namespace"):
        parse_options(["--instead-of-keda"])
    with pytest.raises(WrongInput, match="--hpa-tolerance"):
        parse_options(["--hpa-tolerance", "-1"])
    assert parse_options(["--instead-of-keda", "--namespace", "n"]).hpa_tolerance == 0.1


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
    assert "KEDAScaleTargetActivated" in here.reasons()
    sync = next(record for record in here.records.sent if isinstance(record, HpaSync))
    assert (sync.metrics, sync.proposal, sync.desired) == ({"s0-kafka-t": 25.0}, 3, 3)
    status = here.hpa()["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (1, 3)
    assert status["currentMetrics"][0]["external"]["current"] == {"averageValue": "25"}


def test_a_failing_source_changes_nothing_and_is_no_zero() -> None:
    """The HPA says FailedGetExternalMetric, keeps its replicas, and recovers with the source."""
    here = world(scaled_object(minReplicaCount=1), replicas=4)
    here.worker.step()
    hpa = here.hpa_worker()
    here.source.fails_reading = True
    hpa.step()
    failed = here.condition(HPA, HPA_KEY, "ScalingActive")["reason"], here.cluster.scales[KEY]
    here.source.fails_reading, here.source.lag = False, 60
    here.time.seconds += 15
    hpa.step()

    assert failed == ("FailedGetExternalMetric", 4)
    assert here.cluster.scales[KEY] == 6
    reasons = [reason for reason, _ in here.cluster.events("keda-hpa-w")]
    assert {"FailedGetExternalMetric", "FailedComputeMetricsReplicas"} <= set(reasons)


def test_the_first_sync_comes_one_period_after_the_hpa_is_seen() -> None:
    """As in Kubernetes, so that each HPA has a phase of its own."""
    here = world(scaled_object())
    here.worker.step()

    assert HpaWorker(here.hpa(), here.context).step() == 15


@pytest.mark.parametrize(
    ("annotations", "sync_seconds", "replicas"),
    [
        ({}, 15, 2),
        ({"lagbench.io/hpa-sync-seconds": "5", "lagbench.io/hpa-tolerance": "0"}, 5, 3),
        ({"lagbench.io/hpa-sync-seconds": "none", "lagbench.io/hpa-tolerance": "0"}, 15, 2),
    ],
)
def test_an_object_has_its_own_sync_and_tolerance(
    annotations: dict[str, str], sync_seconds: float, replicas: int
) -> None:
    """2.1 thresholds are within 10 % of two; wrong flags are those of Kubernetes."""
    made = scaled_object(minReplicaCount=2)
    made["metadata"]["annotations"] = annotations
    here = world(made, replicas=2)
    here.source.lag = 21
    here.worker.step()

    assert here.hpa_worker().step() == sync_seconds
    assert here.cluster.scales[KEY] == replicas


@pytest.mark.parametrize(("version", "replicas"), [("1.34", 10), ("1.35", 11)])
def test_an_object_has_a_tolerance_for_each_direction(version: str, replicas: int) -> None:
    """10.6 thresholds are within 10 % of ten pods, and not within 5 %."""
    rules = {"scaleUp": {"tolerance": "0.05"}}
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": rules}}
    made = scaled_object(minReplicaCount=1, maxReplicaCount=20, advanced=advanced)
    made["metadata"]["annotations"][KUBERNETES_ANNOTATION] = version
    here = world(made, replicas=10)
    here.source.lag = 106
    here.worker.step()
    here.hpa_worker().step()

    assert here.cluster.scales[KEY] == replicas


@pytest.mark.parametrize(("version", "replicas"), [("1.36", [0, 0]), ("1.37", [0, 3])])
def test_an_hpa_comes_back_from_zero_by_its_condition(version: str, replicas: list[int]) -> None:
    """From 1.37 on it reads its metrics at zero, to which it has gone itself."""
    made = scaled_object(minReplicaCount=1)
    made["metadata"]["annotations"][KUBERNETES_ANNOTATION] = version
    here = world(made, replicas=2)
    here.source.lag = 0
    here.worker.step()
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    here.cluster.patch(HPA, HPA_KEY, {"spec": {"minReplicas": 0, "behavior": behavior}})
    hpa = here.hpa_worker()
    seen = []
    for lag in (0, 25):
        here.source.lag = lag
        hpa.step()
        seen.append(here.cluster.scales[KEY])
        here.time.seconds += 15

    assert seen == replicas


def cpu_world(container: str, *, pods: int = 2) -> World:
    """Return a world that scales on CPU: main uses 90m of 100m, its proxy 10m of 400m."""
    metadata = {"value": "50", **({"containerName": container} if container else {})}
    trigger = {"type": "cpu", "metricType": "Utilization", "metadata": metadata}
    made = world(scaled_object(triggers=[trigger], minReplicaCount=1), replicas=2)
    made.worker.step()
    containers = [
        {"name": name, "resources": {"requests": {"cpu": cpu}}}
        for name, cpu in (("main", "100m"), ("proxy", "400m"))
    ]
    used = [{"name": "main", "usage": {"cpu": "90m"}}, {"name": "proxy", "usage": {"cpu": "10m"}}]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T07:00:05Z"}
    status = {"phase": "Running", "startTime": "2027-01-15T07:00:00Z", "conditions": [ready]}
    sample = {"timestamp": "2027-01-15T08:00:00Z", "window": "15s"}  # the world's clock stands then
    for name in (f"p{number}" for number in range(pods)):
        made.cluster.put(stored("Pod", name, spec={"containers": containers}, status=status))
        version = "metrics.k8s.io/v1beta1"
        made.cluster.put(stored("PodMetrics", name, version, **sample, containers=used))
    return made


@pytest.mark.parametrize(
    ("container", "replicas", "percent"), [("", 1, 20), ("main", 4, 90), ("proxy", 1, 2)]
)
def test_a_cpu_trigger_reads_the_container_that_it_names(
    container: str, replicas: int, percent: int
) -> None:
    """Of two pods at a target of 50 %: 20 % of the whole, 90 % of main, 2 % of the proxy."""
    here = cpu_world(container)
    here.hpa_worker().step()

    sync = next(record for record in here.records.sent if isinstance(record, HpaSync))
    (shown,) = here.hpa()["status"]["currentMetrics"]
    kind = "ContainerResource" if container else "Resource"
    assert (sync.proposal, shown["type"]) == (replicas, kind)
    current = shown[kind[0].lower() + kind[1:]]["current"]
    assert current["averageUtilization"] == percent


@pytest.mark.parametrize(
    ("container", "pods", "reason"),
    [("absent", 2, "FailedGetContainerResourceMetric"), ("", 0, "FailedGetResourceMetric")],
)
def test_usage_that_is_not_there_fails_the_metric(container: str, pods: int, reason: str) -> None:
    """No pod has the container, or the metrics API has no sample yet."""
    here = cpu_world(container, pods=pods)
    here.hpa_worker().step()

    assert here.condition(HPA, HPA_KEY, "ScalingActive")["reason"] == reason
    assert here.cluster.scales[KEY] == 2
