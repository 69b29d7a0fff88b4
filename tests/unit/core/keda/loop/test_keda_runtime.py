"""KEDA's runtime of one object: what a failing or cached trigger does to both clocks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.keda_sources import (
    SECOND,
    A,
    B,
    FakeScaler,
    Source,
    Sources,
    keda,
    read,
    target,
    tick,
)

from lagbench.core.keda.loop.keda_runtime import KedaObject
from lagbench.core.keda.loop.metric_readings import MetricHealth
from lagbench.core.keda.loop.scalers import MetricSpec, ScalerFailed, ScalersNotBuilt, TargetView
from lagbench.core.keda.object.scaled_object_spec import ScalingAnnotations
from lagbench.core.keda.triggers.trigger_parameters import TriggerRefused

FALLBACK = {"failureThreshold": 3, "replicas": 6}


def test_the_hpa_reads_live_and_the_loop_reuses_it() -> None:
    """With a minimum above zero a tick takes the HPA's reading while the HPA is active."""
    sources = Sources()
    runtime = keda(sources, minReplicaCount=1)

    assert read(runtime) == 50_000
    sources.by_index[0].value = 70.0
    reused = tick(runtime)
    live = tick(runtime, hpa=False)

    assert [found.polls[0].value for found in (reused, live)] == [50.0, 70.0]
    assert reused.decision.active.status == "True"


def test_a_cached_trigger_serves_the_loops_reading() -> None:
    """useCachedMetrics: after a tick the HPA gets the tick's value, not a live one."""
    sources = Sources()
    runtime = keda(sources, minReplicaCount=1, cached=True)
    tick(runtime)
    sources.by_index[0].value = 70.0

    assert read(runtime) == 50_000
    tick(runtime)
    assert read(runtime) == 70_000


def test_a_failing_read_is_tried_again_with_a_fresh_scaler() -> None:
    """Only the second failure counts, and it throws all scalers away."""
    sources = Sources()
    runtime = keda(sources, triggers=2, minReplicaCount=1)
    read(runtime)
    sources.by_index[0].is_read_broken = True

    assert read(runtime) == f"metric:{A} encountered error"
    assert [sources.by_index[i].builds for i in (0, 1)] == [2, 1]
    assert read(runtime, B) == 50_000
    assert [sources.by_index[i].builds for i in (0, 1)] == [3, 2]


def test_a_source_that_cannot_be_opened_blocks_the_healthy_one() -> None:
    """After the first failure nothing of the object is served, and no failure is counted."""
    sources = Sources()
    runtime = keda(sources, triggers=2, minReplicaCount=1, fallback=FALLBACK)
    read(runtime)
    source = sources.by_index[1]
    source.is_read_broken = source.is_build_broken = True
    read(runtime, B)

    for _ in range(5):
        assert read(runtime, A) == "error creating kafka client"
        with pytest.raises(ScalersNotBuilt):
            tick(runtime)
    assert runtime.health[B] == MetricHealth(1, True)
    assert runtime.fallback_condition.status == "False"


def test_a_server_that_does_not_tell_its_specs_blocks_the_healthy_metric() -> None:
    """The specs of all triggers are asked for at each read; what fails there is not counted."""
    sources = Sources()
    runtime = keda(sources, triggers=2, minReplicaCount=1, fallback=FALLBACK)
    read(runtime)
    sources.by_index[1].are_specs_broken = True

    assert read(runtime, A) == f"metric:{A} encountered error"
    assert tick(runtime).has_error
    assert B not in runtime.health


def test_failures_are_counted_on_both_clocks_until_the_fallback_holds() -> None:
    """Threshold 3: the fourth failure, whoever sees it, makes the metric target x replicas."""
    sources = Sources()
    runtime = keda(sources, fallback=FALLBACK, minReplicaCount=0)
    read(runtime)
    sources.by_index[0].is_read_broken = True

    assert read(runtime) == f"metric:{A} encountered error"
    assert tick(runtime).decision.move == "none"
    assert read(runtime) == f"metric:{A} encountered error"
    fourth = tick(runtime, replicas=0)

    assert fourth.fallback.reason == "FallbackExists"
    assert fourth.decision.replicas == 1
    assert read(runtime) == 60_000
    sources.by_index[0].is_read_broken = False
    assert read(runtime) == 50_000
    assert runtime.health[A] == MetricHealth()


def test_a_counter_steps_back_when_the_hpa_writes_its_own_copy() -> None:
    """Scalers built outside the loop carry a copy of the counters that the loop does not see."""
    sources = Sources()
    runtime = keda(sources, fallback={"failureThreshold": 0, "replicas": 6})
    runtime.ensure_built()
    sources.by_index[0].is_read_broken = True
    seen = []
    for act in (read, tick, tick, read):
        act(runtime)
        seen.append(runtime.health[A].failures)

    assert seen == [1, 2, 3, 2]


def test_with_cached_metrics_a_fallback_value_resets_the_counter() -> None:
    """The HPA's path takes the loop's fallback value for a success."""
    sources = Sources()
    fallback = {"failureThreshold": 0, "replicas": 6}
    runtime = keda(sources, cached=True, minReplicaCount=1, fallback=fallback)
    sources.by_index[0].is_read_broken = True
    tick(runtime)

    assert runtime.health[A].failures == 1
    assert read(runtime) == 60_000
    assert runtime.health[A] == MetricHealth()


@pytest.mark.parametrize(
    ("behavior", "metric", "replicas", "expected"),
    [
        ("static", "", 9, 60_000),
        ("currentReplicas", "", 9, 90_000),
        ("currentReplicasIfHigher", "", 9, 90_000),
        ("currentReplicasIfHigher", "", 3, 60_000),
        ("currentReplicasIfLower", "", 9, 60_000),
        ("currentReplicasIfLower", "", 3, 30_000),
        # A target of the group is shared out over the three pods that are ready.
        ("static", "Value", 4, 20_000),
    ],
)
def test_what_each_fallback_behavior_serves(
    behavior: str, metric: str, replicas: int, expected: int
) -> None:
    """The metric makes the HPA compute the fallback's or the current replicas."""
    sources = Sources({0: Source(is_read_broken=True)})
    fallback = {"failureThreshold": 0, "replicas": 6, "behavior": behavior}
    runtime = keda(sources, minReplicaCount=1, metric=metric, fallback=fallback)

    assert read(runtime, replicas=replicas) == expected
    if metric:
        with pytest.raises(ScalerFailed):
            runtime.read_for_hpa(A, TargetView(4, 4, 0))


def test_push_activates_at_once_and_nothing_else() -> None:
    """A push scaler's true lifts the target from zero; it stamps the activity when above."""
    runtime = keda(Sources(), minReplicaCount=0)
    runtime.ensure_built()

    lifted = runtime.push(0, target(0), 5 * SECOND)
    kept = runtime.push(0, target(3), 9 * SECOND)

    assert (lifted.decision.move, lifted.decision.replicas) == ("activate", 1)
    assert kept.decision.replicas is None
    assert runtime.last_active_at_ns == 9 * SECOND


@pytest.mark.parametrize(
    ("annotations", "value", "replicas", "move"),
    [
        (ScalingAnnotations(scale_in_paused=True), 0.0, 3, "none"),
        (ScalingAnnotations(scale_out_paused=True), 50.0, 0, "none"),
        (ScalingAnnotations(forces_activation=True), 0.0, 0, "activate"),
        (ScalingAnnotations(), 0.0, 3, "deactivate"),
        (ScalingAnnotations(), 50.0, 0, "activate"),
    ],
)
def test_annotations_hold_or_force_the_loop(
    annotations: ScalingAnnotations, value: float, replicas: int, move: str
) -> None:
    """Changed annotations act from the next tick on, without new scalers."""
    sources = Sources({0: Source(value=value)})
    runtime = keda(sources, minReplicaCount=0, initialCooldownPeriod=0)
    runtime.annotate(annotations)

    assert tick(runtime, replicas=replicas).decision.move == move
    assert sources.by_index[0].builds == 1


@pytest.mark.parametrize(
    ("fallback", "move", "ready"),
    [
        (None, "none", "TriggerError"),
        ({"failureThreshold": 9, "replicas": 6}, "none", "ScaledObjectReady"),
        ({"failureThreshold": 9, "replicas": 0}, "deactivate", "ScaledObjectReady"),
    ],
)
def test_an_error_holds_the_target_unless_the_fallback_is_zero(
    fallback: dict[str, int] | None, move: str, ready: str
) -> None:
    """Only a fallback to zero replicas lets a target go to zero while its source fails."""
    sources = Sources({0: Source(is_read_broken=True)})
    runtime = keda(sources, minReplicaCount=0, **({"fallback": fallback} if fallback else {}))

    decision = tick(runtime).decision

    assert decision.move == move
    assert decision.ready is not None
    assert decision.ready.reason == ready


def test_an_hpa_needs_metrics_each_with_a_name_of_its_own() -> None:
    """None can be made when two triggers yield the same metric, or none does."""
    twin = MetricSpec("s0-lag", "External", "AverageValue", 1000)
    spec = keda(Sources(), triggers=2, minReplicaCount=1).spec
    broken = Source(are_specs_broken=True)

    for source, said in ((Source(), "s0-lag"), (broken, "no metric specs")):
        runtime = KedaObject(spec, lambda _, of=source: FakeScaler(of, twin), created_at_ns=0)
        with pytest.raises(ScalerFailed, match=said):
            runtime.metric_specs()


def test_streamed_specs_replace_those_of_the_scaler_until_an_error() -> None:
    """A push scaler's streamed specs count at once and go with the scalers."""
    sources = Sources()
    runtime = keda(sources, minReplicaCount=1)
    streamed = MetricSpec("s0-other", "External", "AverageValue", 5000)

    assert not runtime.stream_specs(0, [streamed])
    runtime.ensure_built()
    assert runtime.stream_specs(0, [streamed])
    assert runtime.metric_specs() == (streamed,)
    runtime.close()
    assert [spec.name for spec in runtime.metric_specs()] == [A]


@pytest.mark.parametrize(
    ("is_streamed", "threshold", "served"),
    [
        (False, 0, [f"metric:{A} encountered error"] * 3),  # keda 8056
        (True, 1, [f"metric:{A} encountered error"] * 3),  # the first failure discards the specs
        (True, 0, [60_000] * 3),
    ],
)
def test_a_fallback_with_an_external_scaler_that_cannot_be_reached(
    is_streamed: bool, threshold: int, served: list[Any]
) -> None:
    """Only streamed specs name the metric then, and only a threshold of 0 keeps them."""
    sources = Sources()
    runtime = keda(sources, fallback={"failureThreshold": threshold, "replicas": 6})
    read(runtime)
    if is_streamed:
        assert runtime.stream_specs(0, runtime.metric_specs())
    sources.by_index[0].is_read_broken = sources.by_index[0].are_specs_broken = True

    assert [read(runtime) for _ in served] == served


def modified(**modifiers: Any) -> dict[str, Any]:
    """Return ``advanced`` with scalingModifiers."""
    return {"scalingModifiers": {"target": "10", **modifiers}}


def test_a_formula_decides_value_and_activity() -> None:
    """The composite is served whatever trigger is active; it is active above activationTarget."""
    sources = Sources()
    advanced = modified(formula="a + b", activationTarget="150")
    runtime = keda(sources, triggers=2, minReplicaCount=0, advanced=advanced)

    assert read(runtime, "composite-metric") == 100_000
    quiet = tick(runtime, replicas=0)
    sources.by_index[0].value = 101.0
    busy = tick(runtime, replicas=0)

    assert quiet.decision.active.status == "False"
    assert (busy.decision.replicas, busy.active_metrics) == (1, ("composite-metric",))
    assert busy.composite_milli == 151_000


@pytest.mark.parametrize(
    ("formula", "kind", "fallback", "expected"),
    [
        # The HPA takes a negative average for an overflow; infinity is read back as zero.
        ("a - b * 2", "AverageValue", {}, 2**63 - 1),
        ("a - b * 2", "Value", {}, -50_000),
        ("a / 0", "AverageValue", {}, 0),
        # With this behavior a failing trigger is nil in a formula that asks for it.
        ("a + (b ?? 30)", "AverageValue", {"behavior": "scalingModifiers"}, 80_000),
        # A static fallback of one trigger is the composite's value.
        ("a + b", "AverageValue", {"behavior": "static"}, 60_000),
    ],
)
def test_what_a_composite_comes_to(
    formula: str, kind: str, fallback: dict[str, Any], expected: int
) -> None:
    """Below zero, at infinity, and when the second trigger fails beside a fallback."""
    sources = Sources()
    more = {"fallback": {"failureThreshold": 0, "replicas": 6, **fallback}} if fallback else {}
    advanced = modified(formula=formula, metricType=kind)
    runtime = keda(sources, triggers=2, minReplicaCount=1, advanced=advanced, **more)
    sources.by_index[1].is_read_broken = bool(fallback)

    assert read(runtime, "composite-metric") == expected
    assert bool(tick(runtime).active_metrics) is bool(fallback)


def test_a_formula_that_keda_refuses_is_refused() -> None:
    """The runtime does not start with a formula over a name that no trigger has."""
    with pytest.raises(TriggerRefused):
        keda(Sources(), minReplicaCount=1, advanced=modified(formula="a + c"))
