"""The HPA of several triggers: order, composite, held-back directions and labels."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.hpa.hpa_metrics import propose_external_average
from lagbench.core.hpa.hpa_object import parse_hpa
from lagbench.core.hpa.hpa_sync import (
    HpaHistory,
    HpaSettings,
    MetricOutcome,
    decide,
    record_change,
    start_history,
    wants_metrics,
)
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
from lagbench.core.keda.loop.scalers import MetricSpec, trigger_metric_spec
from lagbench.core.keda.loop.zero_and_minimum import (
    READY,
    ScaleLoopDecision,
    ScaleLoopView,
    execute,
    reuses_hpa_readings,
)
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import PAUSED, PAUSED_REPLICAS, ScaledObjectSpec

KAFKA = {
    "type": "kafka",
    "name": "lag",
    "metadata": {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "t"},
}

CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}

MEMORY_OF_ONE = {
    "type": "memory",
    "metricType": "AverageValue",
    "metadata": {"value": "1Gi", "containerName": "app"},
}

EXTERNAL = {"type": "external", "metadata": {"scalerAddress": "s:6000"}}


def hpa_of(
    triggers: list[dict[str, Any]],
    *more: MetricSpec,
    advanced: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """Return the HPA of an object with these triggers, ``more`` metrics and metadata."""
    manifest = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "w", "namespace": "n", "uid": "u", **metadata},
        "spec": {
            "scaleTargetRef": {"name": "w"},
            "triggers": triggers,
            "advanced": advanced or {},
        },
    }
    spec = parse_scaled_object(manifest, where="f")
    known = [trigger_metric_spec(trigger) for trigger in spec.triggers]
    specs = [*(item for item in known if item is not None), *more]
    return build_hpa(spec, manifest["metadata"], specs)


def test_metrics_are_sorted_by_type() -> None:
    """Container metrics come before external ones, and those before resources."""
    hpa = hpa_of([CPU, KAFKA, MEMORY_OF_ONE])

    assert [metric["type"] for metric in hpa["spec"]["metrics"]] == [
        "ContainerResource",
        "External",
        "Resource",
    ]
    container, external, resource = hpa["spec"]["metrics"]
    assert container["containerResource"] == {
        "name": "memory",
        "container": "app",
        "target": {"type": "AverageValue", "averageValue": "1073741824"},
    }
    assert external["external"]["metric"]["name"] == "s1-kafka-t"
    assert resource["resource"]["target"] == {"type": "Utilization", "averageUtilization": 60}


def test_a_composite_takes_the_place_of_external_metrics() -> None:
    """Resources stay before it; container metrics are lost, as in KEDA."""
    modifiers = {"formula": "lag * 2", "target": "2.5", "metricType": "Value"}

    hpa = hpa_of([KAFKA, CPU, MEMORY_OF_ONE], advanced={"scalingModifiers": modifiers})

    resource, composite = hpa["spec"]["metrics"]
    assert resource["resource"]["name"] == "cpu"
    assert composite["external"] == {
        "metric": {
            "name": "composite-metric",
            "selector": {"matchLabels": {"scaledobject.keda.sh/name": "w"}},
        },
        "target": {"type": "Value", "value": "2500m"},
    }


def test_metrics_of_an_external_server_are_taken_as_they_are() -> None:
    """What the server told is on the HPA; the trigger alone knows no metric."""
    reported = MetricSpec(
        name="s0-persistent_lag",
        kind="External",
        target_type="AverageValue",
        target_milli=1500,
    )

    hpa = hpa_of([EXTERNAL], reported)

    external = hpa["spec"]["metrics"][0]["external"]
    assert external["metric"]["name"] == "s0-persistent_lag"
    assert external["target"] == {"type": "AverageValue", "averageValue": "1500m"}


@pytest.mark.parametrize(
    ("annotation", "side", "other"),
    [("paused-scale-in", "scaleDown", "scaleUp"), ("paused-scale-out", "scaleUp", "scaleDown")],
)
def test_a_direction_held_back_is_disabled(annotation: str, side: str, other: str) -> None:
    """A behavior is made where there is none, which changes the HPA's algorithm as well."""
    annotations = {f"autoscaling.keda.sh/{annotation}": "true"}
    given = {other: {"stabilizationWindowSeconds": 5}, side: {"selectPolicy": "Min"}}
    config = {"horizontalPodAutoscalerConfig": {"behavior": given}}

    bare = hpa_of([KAFKA], annotations=annotations)
    merged = hpa_of([KAFKA], advanced=config, annotations=annotations)

    assert bare["spec"]["behavior"] == {side: {"selectPolicy": "Disabled"}}
    assert merged["spec"]["behavior"] == {
        other: {"stabilizationWindowSeconds": 5},
        side: {"selectPolicy": "Disabled"},
    }
    assert given[side] == {"selectPolicy": "Min"}
    assert parse_hpa(bare, where="h").behavior is not None


def test_labels_of_the_object_win_and_can_be_left_out() -> None:
    """KEDA copies the ScaledObject's labels over its own, except for those excluded."""
    hpa = hpa_of(
        [KAFKA],
        labels={"app.kubernetes.io/part-of": "bench", "secret": "x", "team": "t"},
        annotations={"scaledobject.keda.sh/hpa-excluded-labels": "secret,other"},
    )

    labels = hpa["metadata"]["labels"]
    assert labels["app.kubernetes.io/part-of"] == "bench"
    assert labels["app.kubernetes.io/managed-by"] == "keda-operator"
    assert labels["team"] == "t"
    assert labels["scaledobject.keda.sh/name"] == "w"
    assert "secret" not in labels


KEDA_PAUSED = {"type": "Paused", "status": "True", "reason": "ScaledObjectPaused"}


def scaled_object(**annotations: str) -> dict[str, Any]:
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
    assert is_handed_over(scaled_object(**annotations, **{PAUSED: "true"})) is is_ours


@pytest.mark.parametrize("pause", [{PAUSED: "true"}, {PAUSED: "1"}, {PAUSED_REPLICAS: "3"}])
def test_a_pause_is_what_keda_takes_for_one(pause: dict[str, str]) -> None:
    """KEDA leaves the target alone with either annotation."""
    assert unpaused_problem(scaled_object(**pause)) == ""


@pytest.mark.parametrize("pause", [{}, {PAUSED: "false"}])
def test_without_a_pause_there_are_two_controllers(pause: dict[str, str]) -> None:
    """The message names the object and the annotation."""
    problem = unpaused_problem(scaled_object(**pause))

    assert "ScaledObject n/s" in problem
    assert PAUSED in problem


def test_the_pause_is_for_keda_only() -> None:
    """The object as driven is not paused; a count to pause at binds both controllers."""
    driven = as_driven(scaled_object(**{PAUSED: "true", PAUSED_REPLICAS: "3", "a": "b"}))

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

    assert with_paused_of(ours, scaled_object()) == [ours[0], KEDA_PAUSED]
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

    assert hpa_on_target(scaled_object(), [hpa]) == found


SECOND = 1_000_000_000

# Whether a trigger of the object is active, and whether one could not be read.
ON, OFF, BROKEN, PARTLY_BROKEN = (True, False), (False, False), (False, True), (True, True)


def scaled_object_of_keda_scale_loop(**spec: Any) -> ScaledObjectSpec:
    """Return a ScaledObject with one kafka trigger at 10 per pod."""
    metadata = {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "t"}
    manifest = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "w", "namespace": "n", "uid": "u"},
        "spec": {
            "scaleTargetRef": {"name": "w"},
            "triggers": [{"type": "kafka", "metadata": metadata}],
            **spec,
        },
    }
    return parse_scaled_object(manifest, where="test")


def tick(
    spec: ScaledObjectSpec,
    triggers: tuple[bool, bool],
    current: int,
    *,
    last: float | None = 0.0,
    now: float = 1000.0,
) -> ScaleLoopDecision:
    """Do one tick; instants in seconds."""
    is_active, has_error = triggers
    view = ScaleLoopView(
        is_active=is_active,
        has_error=has_error,
        current_replicas=current,
        last_active_at_ns=None if last is None else round(last * SECOND),
        created_at_ns=0,
        now_ns=round(now * SECOND),
    )
    return execute(spec, view)


def test_activation_goes_to_one_or_the_minimum() -> None:
    """From zero an active trigger starts max(minimum, 1) pods and stamps a whole second."""
    plain = tick(scaled_object_of_keda_scale_loop(), ON, 0, now=10.7)
    higher = tick(scaled_object_of_keda_scale_loop(minReplicaCount=3), ON, 0)

    assert (plain.move, plain.replicas, plain.last_active_at_ns) == ("activate", 1, 10 * SECOND)
    assert higher.replicas == 3


@pytest.mark.parametrize(("now", "replicas"), [(360.0, None), (360.1, 0), (390.0, 0)])
def test_the_cooldown_must_be_exceeded(now: float, replicas: int | None) -> None:
    """Last active at 60 with 300 s of cooldown: 360 is too early, anything later is not."""
    decision = tick(scaled_object_of_keda_scale_loop(), OFF, 3, last=60, now=now)

    assert decision.replicas == replicas
    assert decision.active.reason == ("ScalerCooldown" if replicas is None else "ScalerNotActive")


def test_the_initial_cooldown_counts_from_creation_until_the_first_activity() -> None:
    """An object that was never active waits initialCooldownPeriod after its creation."""
    spec = scaled_object_of_keda_scale_loop(initialCooldownPeriod=60)

    assert tick(spec, OFF, 2, last=None, now=60).replicas is None
    assert tick(spec, OFF, 2, last=None, now=61).replicas == 0


def test_idle_replicas_are_the_resting_place() -> None:
    """With idle 1 and minimum 3: activity goes 1 to 3, rest goes 3 to 1."""
    spec = scaled_object_of_keda_scale_loop(minReplicaCount=3, idleReplicaCount=1)

    assert tick(spec, ON, 1).replicas == 3
    assert tick(spec, OFF, 3, last=0, now=301).replicas == 1
    assert tick(spec, OFF, 1, last=0, now=301).replicas is None


def test_below_the_minimum_an_inactive_target_is_lifted() -> None:
    """Without idle replicas a target below its minimum is set to it at once."""
    decision = tick(scaled_object_of_keda_scale_loop(minReplicaCount=2), OFF, 0)

    assert (decision.move, decision.replicas) == ("lift_to_minimum", 2)


def test_an_error_keeps_an_inactive_target_though_the_cooldown_is_over() -> None:
    """Nothing is removed while the trigger cannot be read; Ready says TriggerError."""
    decision = tick(scaled_object_of_keda_scale_loop(), BROKEN, 7, last=0, now=5000)

    assert decision.replicas is None
    assert decision.ready is not None
    assert (decision.ready.status, decision.ready.reason) == ("False", "TriggerError")


def test_a_partial_error_does_not_refresh_the_cooldown() -> None:
    """One trigger active, one broken: Ready is Unknown and lastActiveTime stays."""
    decision = tick(scaled_object_of_keda_scale_loop(), PARTLY_BROKEN, 3, last=60, now=90)

    assert decision.last_active_at_ns == 60 * SECOND
    assert decision.ready is not None
    assert decision.ready.reason == "PartialTriggerError"
    assert tick(scaled_object_of_keda_scale_loop(), PARTLY_BROKEN, 0).replicas == 1


def test_readings_are_reused_only_where_the_loop_has_nothing_to_decide() -> None:
    """A minimum above zero, no idle count and no cached metrics: the HPA's readings do."""
    assert reuses_hpa_readings(scaled_object_of_keda_scale_loop(minReplicaCount=1))
    assert not reuses_hpa_readings(scaled_object_of_keda_scale_loop())
    assert not reuses_hpa_readings(
        scaled_object_of_keda_scale_loop(minReplicaCount=2, idleReplicaCount=1)
    )


def simulate(drained_at: int, hpa_phase: int, end: int) -> list[tuple[int, int]]:
    """Return (second, replicas) of each change: polls every 30 s, HPA syncs every 15 s."""
    scaled = scaled_object_of_keda_scale_loop(minReplicaCount=0)
    specs = [trigger_metric_spec(trigger) for trigger in scaled.triggers]
    made = build_hpa(scaled, {"uid": "u"}, [item for item in specs if item is not None])
    hpa = parse_hpa(made, where="test")
    replicas, last_active = 0, None
    history: HpaHistory | None = None
    changes: list[tuple[int, int]] = []
    settings = HpaSettings()
    for second in range(end):
        lag = 200 if second < drained_at else 0
        metric = min(lag, 100)  # ten partitions at ten each
        now_ns = second * SECOND
        before = replicas
        if second % 30 == 0:
            view = ScaleLoopView(
                is_active=lag > 0,
                has_error=False,
                current_replicas=replicas,
                last_active_at_ns=last_active,
                created_at_ns=0,
                now_ns=now_ns,
            )
            decision = execute(scaled, view)
            last_active = decision.last_active_at_ns
            replicas = replicas if decision.replicas is None else decision.replicas
        if second >= hpa_phase and (second - hpa_phase) % 15 == 0:
            history = history or start_history(replicas, now_ns)
            outcomes = []
            if wants_metrics(hpa, replicas):
                proposal = propose_external_average(
                    [metric * 1000], 10_000, status_replicas=replicas, tolerance=0.1
                )
                outcomes = [MetricOutcome("lag", proposal)]
            done = decide(
                hpa, history, outcomes, spec_replicas=replicas, now_ns=now_ns, settings=settings
            )
            history = record_change(hpa, done.history, replicas, done.replicas, now_ns)
            replicas = done.replicas
        if replicas != before:
            changes.append((second, replicas))
    return changes


def test_keda_can_take_a_workload_from_its_peak_to_zero_in_one_step() -> None:
    """Drained at 60 with HPA syncs at 5, 20, 35: KEDA's tick at 360 comes before the HPA's 365."""
    assert simulate(drained_at=60, hpa_phase=5, end=420) == [
        (0, 1),
        (5, 4),
        (20, 8),
        (35, 10),
        (360, 0),
    ]


def test_the_hpa_can_be_first_and_keda_does_the_rest() -> None:
    """Drained at 75 with HPA syncs at 10, 25, 40: 10 to 1 at 385, 1 to 0 at 390."""
    changes = simulate(drained_at=75, hpa_phase=10, end=420)

    assert changes[-2:] == [(385, 1), (390, 0)]
