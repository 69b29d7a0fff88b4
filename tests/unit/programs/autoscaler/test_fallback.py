"""Fallback, formulas and failing triggers on the live worker: the texts that KEDA was seen with."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.autoscaler_world import KEY, World, kafka, scaled_object, world

from lagbench.adapters.kube.cluster_protocol import HPA
from lagbench.programs.autoscaler.hpa.hpa_worker import HpaWorker

HPA_KEY = ("n", "keda-hpa-w")
STATIC = {"failureThreshold": 3, "replicas": 6}
FAST: dict[str, Any] = {
    "horizontalPodAutoscalerConfig": {
        "behavior": {
            "scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]},
            "scaleDown": {"stabilizationWindowSeconds": 0},
        }
    }
}


def poll(here: World) -> None:
    """Let the scale loop do its next round."""
    here.context.directory.hpas = {HPA_KEY: here.hpa()}
    here.after(10)


def sync(here: World, hpa: HpaWorker) -> None:
    """Let the HPA do its next sync."""
    here.time.seconds += 15
    hpa.step()


def failures(here: World, metric: str = "s0-kafka-t") -> int:
    """Return a failure counter."""
    return int(here.status()["health"][metric]["numberOfFailures"])


def test_a_topic_that_is_gone_is_counted_by_both_clocks_until_the_fallback_engages() -> None:
    """1 by the HPA, 2 by the loop, 3, 4: then Fallback=True, 6 replicas, and back when it is."""
    here = world(scaled_object(minReplicaCount=1, fallback=STATIC, advanced=FAST), replicas=3)
    here.source.lag = 30
    here.worker.step()
    hpa = here.hpa_worker()
    hpa.step()
    poll(here)
    here.source.failing = {0}
    counted: list[int] = []
    for act in (lambda: sync(here, hpa), lambda: poll(here)) * 2:
        act()
        counted.append(failures(here))
    shown = here.shown("Fallback")
    sync(here, hpa)
    at_fallback = here.cluster.scales[KEY]
    active = here.shown("Active")
    here.source.failing = set()
    poll(here)
    sync(here, hpa)

    assert counted == [1, 2, 3, 4]
    assert (shown, active) == ("True:FallbackExists", "True:ScalerActive")
    assert at_fallback == 6
    assert here.cluster.scales[KEY] == 3
    assert here.status()["health"] == {"s0-kafka-t": {"numberOfFailures": 0, "status": "Happy"}}
    assert here.shown("Fallback") == "False:NoFallbackFound"
    assert "ScaledObjectFallbackActivated" in [reason for reason, _ in here.cluster.events("w")]
    errors = [m for r, m in here.cluster.events("keda-hpa-w") if r == "FailedGetExternalMetric"]
    assert "metric:s0-kafka-t" in errors[0]


def test_the_first_reading_of_an_hpa_with_a_fallback_makes_ready_unknown_for_a_while() -> None:
    """KEDA writes conditions that it remembers from before the first poll."""
    here = world(scaled_object(minReplicaCount=1, fallback=STATIC))
    here.source.lag = 30
    here.worker.step()
    here.hpa_worker().step()
    seen = here.shown("Ready"), here.shown("Active")
    poll(here)

    assert seen == ("Unknown:", "Unknown:")
    assert (here.shown("Ready"), here.shown("Active")) == (
        "True:ScaledObjectReady",
        "True:ScalerActive",
    )


def test_a_broker_that_is_away_lets_no_fallback_engage() -> None:
    """While the scaler cannot be built nothing is counted and nothing moves."""
    here = world(scaled_object(minReplicaCount=1, fallback=STATIC), replicas=3)
    here.source.lag = 30
    here.worker.step()
    hpa = here.hpa_worker()
    hpa.step()
    here.source.fails_building = here.source.fails_reading = True
    for _ in range(6):
        sync(here, hpa)
        poll(here)

    assert failures(here) == 1
    assert here.cluster.scales[KEY] == 3
    assert ("KEDAScalerFailed", "no broker answers") in here.cluster.events("w")
    active = here.condition(HPA, HPA_KEY, "ScalingActive")
    assert active["message"].endswith("no broker answers")


def test_of_two_triggers_the_failing_one_leaves_the_other_its_way_up() -> None:
    """Up goes, down is held, Ready says that some triggers do not work."""
    triggers = [kafka(), kafka(topic="u")]
    here = world(scaled_object(minReplicaCount=1, triggers=triggers, advanced=FAST), replicas=5)
    here.source.lags = {0: 50, 1: 20}
    here.worker.step()
    hpa = here.hpa_worker()
    here.source.failing, here.source.lags = {1}, {0: 100, 1: 20}
    sync(here, hpa)
    poll(here)
    up = here.cluster.scales[KEY]
    here.source.lags = {0: 10}
    sync(here, hpa)

    assert (up, here.cluster.scales[KEY]) == (10, 10)
    assert here.shown("Ready") == "Unknown:PartialTriggerError"
    assert here.status()["triggersActivity"] == {
        "s0-kafka-t": {"isActive": True},
        "s1-kafka-u": {"isActive": False},
    }


@pytest.mark.parametrize(
    ("formula", "lags", "replicas"),
    [("a + b", {0: 50, 1: 20}, 7), ("a - b", {0: 0, 1: 20}, 20)],
)
def test_a_formula_makes_one_metric_of_all_triggers(
    formula: str, lags: dict[int, int], replicas: int
) -> None:
    """The HPA sees composite-metric only; a negative value overflows to the maximum there."""
    modifiers = {"formula": formula, "target": "10"}
    spec = scaled_object(
        minReplicaCount=1,
        maxReplicaCount=20,
        triggers=[kafka("a"), kafka("b", topic="u"), cpu()],
        advanced={**FAST, "scalingModifiers": modifiers},
    )
    here = world(spec)
    here.source.lags = lags
    here.worker.step()
    here.hpa_worker().step()

    metrics = here.hpa()["spec"]["metrics"]
    assert [item["type"] for item in metrics] == ["Resource", "External"]
    assert metrics[1]["external"]["metric"]["name"] == "composite-metric"
    assert here.cluster.scales[KEY] == replicas
    status = here.status()
    assert status["compositeScalerName"] == "composite-metric"
    assert status["externalMetricNames"] == ["s0-kafka-t", "s1-kafka-u"]
    assert status["resourceMetricNames"] == ["cpu"]
    assert {item["isActive"] for item in status["triggersActivity"].values()} == {False}
    is_active = formula == "a + b"
    assert here.shown("Active") == ("True:ScalerActive" if is_active else "False:ScalerNotActive")


def test_a_failing_source_of_a_formula_is_reported_as_a_metric_source() -> None:
    """Without fallback Ready is False and no replica moves."""
    spec = scaled_object(
        minReplicaCount=1,
        triggers=[kafka("a"), kafka("b", topic="u")],
        advanced={"scalingModifiers": {"formula": "a + b", "target": "10"}},
    )
    here = world(spec, replicas=4)
    here.source.failing = {1}
    here.worker.step()

    assert ("KEDAMetricSourceFailed", "topic is gone") in here.cluster.events("w")
    assert here.shown("Ready") == "False:TriggerError"
    assert here.cluster.scales[KEY] == 4


def cpu() -> dict[str, Any]:
    """Return a cpu trigger."""
    return {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}


def test_cpu_beside_kafka_goes_to_the_hpa_and_does_not_keep_the_target_awake() -> None:
    """The HPA gets both metrics; after the cooldown the object still goes to zero."""
    spec = scaled_object(triggers=[cpu(), kafka()], cooldownPeriod=20)
    here = world(spec, replicas=2)
    here.source.lag = 5
    here.worker.step()
    here.source.lag = 0
    poll(here)
    cooling = here.shown("Active")
    poll(here)
    poll(here)

    metrics = here.hpa()["spec"]["metrics"]
    assert [item["type"] for item in metrics] == ["External", "Resource"]
    assert metrics[1]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 50}
    assert cooling == "False:ScalerCooldown"
    assert here.cluster.scales[KEY] == 0
    assert here.status()["triggersActivity"] == {"s1-kafka-t": {"isActive": False}}


def test_idle_replicas_are_kept_without_lag_and_left_for_the_minimum_with_it() -> None:
    """Inactive past the cooldown 3 becomes 1, active 1 becomes 3."""
    here = world(scaled_object(minReplicaCount=3, idleReplicaCount=1, cooldownPeriod=0), replicas=3)
    here.worker.step()
    idle = here.cluster.scales[KEY]
    here.source.lag = 1
    poll(here)

    assert (idle, here.cluster.scales[KEY]) == (1, 3)
