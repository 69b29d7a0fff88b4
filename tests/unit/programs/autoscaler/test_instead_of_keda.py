"""The controller on a cluster that has KEDA: its HPAs in memory, and never two controllers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.fakes.autoscaler_world import HPA_KEY, KEY, World, scaled_object, world
from tests.fakes.cluster import FakeCluster

from lagbench.adapters.kube.cluster_protocol import (
    EVENT,
    HPA,
    SCALED_OBJECT,
    ClusterError,
    Manifest,
)
from lagbench.core.hpa.hpa_sync import Condition
from lagbench.core.keda.loop.keda_hpa import CONTROLLER, SCALED_BY, as_driven
from lagbench.core.keda.object.scaled_object_spec import PAUSED
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.autoscaler.__main__ import parse_options
from lagbench.programs.autoscaler.hpa_worker import HpaWorker
from lagbench.programs.autoscaler.instead_of_keda import (
    Handover,
    InsteadOfKeda,
    require_kinds,
)
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
