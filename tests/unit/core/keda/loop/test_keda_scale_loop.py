"""KEDA's scale loop, alone and together with the HPA on two independent clocks."""

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
from lagbench.core.keda.loop.keda_hpa import build_hpa
from lagbench.core.keda.loop.scalers import trigger_metric_spec
from lagbench.core.keda.loop.zero_and_minimum import (
    ScaleLoopDecision,
    ScaleLoopView,
    execute,
    reuses_hpa_readings,
)
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec

SECOND = 1_000_000_000

# Whether a trigger of the object is active, and whether one could not be read.
ON, OFF, BROKEN, PARTLY_BROKEN = (True, False), (False, False), (False, True), (True, True)


def scaled_object(**spec: Any) -> ScaledObjectSpec:
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
    plain = tick(scaled_object(), ON, 0, now=10.7)
    higher = tick(scaled_object(minReplicaCount=3), ON, 0)

    assert (plain.move, plain.replicas, plain.last_active_at_ns) == ("activate", 1, 10 * SECOND)
    assert higher.replicas == 3


@pytest.mark.parametrize(("now", "replicas"), [(360.0, None), (360.1, 0), (390.0, 0)])
def test_the_cooldown_must_be_exceeded(now: float, replicas: int | None) -> None:
    """Last active at 60 with 300 s of cooldown: 360 is too early, anything later is not."""
    decision = tick(scaled_object(), OFF, 3, last=60, now=now)

    assert decision.replicas == replicas
    assert decision.active.reason == ("ScalerCooldown" if replicas is None else "ScalerNotActive")


def test_the_initial_cooldown_counts_from_creation_until_the_first_activity() -> None:
    """An object that was never active waits initialCooldownPeriod after its creation."""
    spec = scaled_object(initialCooldownPeriod=60)

    assert tick(spec, OFF, 2, last=None, now=60).replicas is None
    assert tick(spec, OFF, 2, last=None, now=61).replicas == 0


def test_idle_replicas_are_the_resting_place() -> None:
    """With idle 1 and minimum 3: activity goes 1 to 3, rest goes 3 to 1."""
    spec = scaled_object(minReplicaCount=3, idleReplicaCount=1)

    assert tick(spec, ON, 1).replicas == 3
    assert tick(spec, OFF, 3, last=0, now=301).replicas == 1
    assert tick(spec, OFF, 1, last=0, now=301).replicas is None


def test_below_the_minimum_an_inactive_target_is_lifted() -> None:
    """Without idle replicas a target below its minimum is set to it at once."""
    decision = tick(scaled_object(minReplicaCount=2), OFF, 0)

    assert (decision.move, decision.replicas) == ("lift_to_minimum", 2)


def test_an_error_keeps_an_inactive_target_though_the_cooldown_is_over() -> None:
    """Nothing is removed while the trigger cannot be read; Ready says TriggerError."""
    decision = tick(scaled_object(), BROKEN, 7, last=0, now=5000)

    assert decision.replicas is None
    assert decision.ready is not None
    assert (decision.ready.status, decision.ready.reason) == ("False", "TriggerError")


def test_a_partial_error_does_not_refresh_the_cooldown() -> None:
    """One trigger active, one broken: Ready is Unknown and lastActiveTime stays."""
    decision = tick(scaled_object(), PARTLY_BROKEN, 3, last=60, now=90)

    assert decision.last_active_at_ns == 60 * SECOND
    assert decision.ready is not None
    assert decision.ready.reason == "PartialTriggerError"
    assert tick(scaled_object(), PARTLY_BROKEN, 0).replicas == 1


def test_readings_are_reused_only_where_the_loop_has_nothing_to_decide() -> None:
    """A minimum above zero, no idle count and no cached metrics: the HPA's readings do."""
    assert reuses_hpa_readings(scaled_object(minReplicaCount=1))
    assert not reuses_hpa_readings(scaled_object())
    assert not reuses_hpa_readings(scaled_object(minReplicaCount=2, idleReplicaCount=1))


def simulate(drained_at: int, hpa_phase: int, end: int) -> list[tuple[int, int]]:
    """Return (second, replicas) of each change: polls every 30 s, HPA syncs every 15 s."""
    scaled = scaled_object(minReplicaCount=0)
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
