"""Beside the recorded HPAs and loops: labels, handover to this controller, and the scale loop."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.policies import behavior, kafka, scaled_object

from lagbench.core.keda.loop.keda_hpa import (
    CONTROLLER,
    SCALED_BY,
    as_driven,
    build_hpa,
    hpa_on_target,
    is_driven,
    is_handed_over,
    unpaused_problem,
    with_paused_of,
)
from lagbench.core.keda.loop.scalers import MetricSpec
from lagbench.core.keda.loop.zero_and_minimum import (
    READY,
    ScaleLoopView,
    execute,
    reuses_hpa_readings,
)
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import PAUSED, PAUSED_REPLICAS, ScaledObjectSpec


def hpa_of(advanced: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return the HPA of an object with this metadata, on a metric that a server has named."""
    manifest = scaled_object(advanced=advanced or {}, metadata={"uid": "u", **metadata})
    reported = MetricSpec("s0-persistent_lag", "External", "AverageValue", 1500)
    return build_hpa(parse_scaled_object(manifest, where="f"), manifest["metadata"], [reported])


@pytest.mark.parametrize(
    ("annotation", "side", "other"),
    [("paused-scale-in", "scaleDown", "scaleUp"), ("paused-scale-out", "scaleUp", "scaleDown")],
)
def test_a_direction_held_back_is_disabled(annotation: str, side: str, other: str) -> None:
    """A behavior is made where there is none, which changes the HPA's algorithm as well."""
    annotations = {f"autoscaling.keda.sh/{annotation}": "true"}
    given = {other: {"stabilizationWindowSeconds": 5}, side: {"selectPolicy": "Min"}}

    bare = hpa_of(annotations=annotations)
    merged = hpa_of(behavior(**given), annotations=annotations)

    assert bare["spec"]["behavior"] == {side: {"selectPolicy": "Disabled"}}
    assert merged["spec"]["behavior"] == {
        other: {"stabilizationWindowSeconds": 5},
        side: {"selectPolicy": "Disabled"},
    }
    assert given[side] == {"selectPolicy": "Min"}


def test_the_hpa_never_goes_to_zero_and_carries_the_object_s_metadata() -> None:
    """KEDA copies annotations, and labels over its own, except for those excluded."""
    hpa = hpa_of(
        labels={"app.kubernetes.io/part-of": "bench", "secret": "x", "team": "t"},
        annotations={"scaledobject.keda.sh/hpa-excluded-labels": "secret,other"},
    )
    labels, (metric,) = hpa["metadata"]["labels"], hpa["spec"]["metrics"]

    assert labels["app.kubernetes.io/part-of"] == "bench"
    assert labels["app.kubernetes.io/managed-by"] == "keda-operator"
    assert labels["team"] == "t"
    assert labels["scaledobject.keda.sh/name"] == "so"
    assert "secret" not in labels
    assert hpa["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert hpa["metadata"]["annotations"]
    assert "behavior" not in hpa["spec"]
    assert metric["external"]["metric"]["name"] == "s0-persistent_lag"
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "1500m"}


KEDA_PAUSED = {"type": "Paused", "status": "True", "reason": "ScaledObjectPaused"}


def paused_object(**annotations: str) -> dict[str, Any]:
    """Return a ScaledObject on the Deployment ``w`` that KEDA has paused."""
    return {
        "metadata": {"namespace": "n", "name": "s", "annotations": annotations},
        "spec": {"scaleTargetRef": {"name": "w"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, KEDA_PAUSED]},
    }


@pytest.mark.parametrize(
    ("annotations", "is_ours"),
    [({}, False), ({SCALED_BY: "another"}, False), ({SCALED_BY: CONTROLLER}, True)],
)
def test_an_object_names_its_controller(annotations: dict[str, str], is_ours: bool) -> None:
    """Only an object that names this controller is its own; a pause alone is just a pause."""
    assert is_handed_over(paused_object(**annotations, **{PAUSED: "true"})) is is_ours


@pytest.mark.parametrize(
    ("pause", "named"),
    [
        ({PAUSED: "true"}, ""),
        ({PAUSED: "1"}, ""),
        ({PAUSED_REPLICAS: "3"}, ""),
        ({}, PAUSED),
        ({PAUSED: "false"}, PAUSED),
    ],
)
def test_without_a_pause_there_are_two_controllers(pause: dict[str, str], named: str) -> None:
    """KEDA leaves the target alone with either annotation; else the message names object and it."""
    problem = unpaused_problem(paused_object(**pause))

    assert named in problem
    assert ("ScaledObject n/s" in problem) is bool(named)


def test_the_pause_is_for_keda_only() -> None:
    """The object as driven is not paused; a count to pause at binds both controllers."""
    driven = as_driven(paused_object(**{PAUSED: "true", PAUSED_REPLICAS: "3", "a": "b"}))

    assert driven["metadata"]["annotations"] == {PAUSED_REPLICAS: "3", "a": "b"}
    assert [c["type"] for c in driven["status"]["conditions"]] == ["Ready"]


def test_keda_s_ready_is_not_ours() -> None:
    """KEDA calls an object Ready while it is paused; taken up it is with the controller's Ready."""
    ready = {"type": "Ready", "status": "True", "message": "ScaledObject is paused"}

    assert not is_driven({"status": {"conditions": [ready]}})
    assert is_driven({"status": {"conditions": [{**ready, "message": READY.message}]}})
    assert not is_driven({})


def test_the_paused_condition_stays_as_keda_wrote_it() -> None:
    """Whatever this controller says of a pause, the stored condition is kept."""
    ours = [{"type": "Ready", "status": "False"}, {"type": "Paused", "status": "False"}]

    assert with_paused_of(ours, paused_object()) == [ours[0], KEDA_PAUSED]
    assert with_paused_of(ours, {}) == [ours[0]]


@pytest.mark.parametrize(
    ("namespace", "kind", "name", "found"),
    [
        ("n", "Deployment", "w", "h"),
        ("other", "Deployment", "w", ""),
        ("n", "StatefulSet", "w", ""),
        ("n", "Deployment", "v", ""),
    ],
)
def test_an_hpa_on_the_same_target_is_found(
    namespace: str, kind: str, name: str, found: str
) -> None:
    """Namespace, kind and name have to be the same."""
    target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
    hpa = {"metadata": {"namespace": namespace, "name": "h"}, "spec": {"scaleTargetRef": target}}

    assert hpa_on_target(paused_object(), [hpa]) == found


SECOND = 1_000_000_000

# Whether a trigger of the object is active, and whether one could not be read.
ON, OFF, BROKEN, PARTLY_BROKEN = (True, False), (False, False), (False, True), (True, True)
IDLE = {"minReplicaCount": 3, "idleReplicaCount": 1}


def spec_of(**spec: Any) -> ScaledObjectSpec:
    """Return a ScaledObject with one kafka trigger, and by default no minimum."""
    written = {"minReplicaCount": None, "triggers": [kafka()], **spec}
    return parse_scaled_object(scaled_object(**written), where="f")


@pytest.mark.parametrize(
    ("spec", "seen", "move", "replicas"),
    [
        ({}, (ON, 0, 0, 10.7), "activate", 1),
        ({"minReplicaCount": 3}, (ON, 0, 0, 10), "activate", 3),
        # Last active at 60 with 300 s of cooldown: 360 is too early, anything later is not.
        ({}, (OFF, 3, 60, 360.0), "none", None),
        ({}, (OFF, 3, 60, 360.1), "deactivate", 0),
        # An object that was never active waits initialCooldownPeriod after its creation.
        ({"initialCooldownPeriod": 60}, (OFF, 2, None, 60), "none", None),
        ({"initialCooldownPeriod": 60}, (OFF, 2, None, 61), "deactivate", 0),
        (IDLE, (ON, 1, 0, 10), "activate", 3),
        (IDLE, (OFF, 3, 0, 301), "deactivate", 1),
        (IDLE, (OFF, 1, 0, 301), "none", None),
        ({"minReplicaCount": 2}, (OFF, 0, 0, 10), "lift_to_minimum", 2),
        # Nothing is removed while the trigger cannot be read.
        ({}, (BROKEN, 7, 0, 5000), "none", None),
        ({}, (PARTLY_BROKEN, 3, 60, 90), "none", None),
        ({}, (PARTLY_BROKEN, 0, 60, 90), "activate", 1),
    ],
)
def test_what_a_tick_does(
    spec: dict[str, Any],
    seen: tuple[tuple[bool, bool], int, float | None, float],
    move: str,
    replicas: int | None,
) -> None:
    """Only the way between zero, or idle, and the minimum is KEDA's; seconds are whole ones."""
    triggers, current, last, now = seen
    is_active, has_error = triggers
    view = ScaleLoopView(
        is_active=is_active,
        has_error=has_error,
        current_replicas=current,
        last_active_at_ns=None if last is None else round(last * SECOND),
        created_at_ns=0,
        now_ns=round(now * SECOND),
    )
    found = execute(spec_of(**spec), view)

    assert (found.move, found.replicas) == (move, replicas)
    is_stamped = is_active and (move == "activate" or not has_error)
    assert found.last_active_at_ns == (int(now) * SECOND if is_stamped else view.last_active_at_ns)
    reasons = {BROKEN: "TriggerError", PARTLY_BROKEN: "PartialTriggerError"}
    wanted = "ScaledObjectReady" if move == "activate" else reasons.get(triggers)
    assert found.ready is not None
    assert found.ready.reason == (wanted or "ScaledObjectReady")


def test_readings_are_reused_only_where_the_loop_has_nothing_to_decide() -> None:
    """A minimum above zero, no idle count and no cached metrics: the HPA's readings do."""
    assert reuses_hpa_readings(spec_of(minReplicaCount=1))
    assert not reuses_hpa_readings(spec_of())
    assert not reuses_hpa_readings(spec_of(**IDLE))
