"""Annotations that pause an object, one direction of it, or force it on: as recorded with KEDA."""

from __future__ import annotations

import pytest
from tests.fakes.autoscaler_world import KEY, World, scaled_object, world

from lagbench.adapters.kube.cluster_protocol import SCALED_OBJECT


def running(*, lag: int = 60, replicas: int = 1, **spec: object) -> World:
    """Return a world whose object is Ready and polled."""
    here = world(scaled_object(**spec), replicas=replicas)
    here.source.lag = lag
    here.worker.step()
    return here


@pytest.mark.parametrize("value", ["true", "yes"])
def test_paused_removes_the_hpa_and_leaves_the_replicas(value: str) -> None:
    """Any value but a false one pauses; Ready stays True and says that it is paused."""
    here = running(replicas=3)
    here.annotate(paused=value)
    here.after(1)
    here.source.lag = 0
    here.after(600)

    assert not here.has_hpa()
    assert here.cluster.scales[KEY] == 3
    assert here.shown("Paused") == "True:ScaledObjectPaused"
    assert here.shown("Ready") == "True:ScaledObjectReady"
    assert here.reasons()[-2:] == ["KEDAScalersStopped", "ScaledObjectPaused"]
    assert here.context.directory.source_of(KEY) is None


def test_taking_the_annotation_away_makes_a_new_hpa_and_starts_the_loop() -> None:
    """Paused=False has a reason then, and the object is not told to be Ready once more."""
    here = running()
    uid = here.hpa()["metadata"]["uid"]
    here.annotate(paused="true")
    here.after(1)
    here.annotate(paused="false")
    here.after(1)

    assert here.hpa()["metadata"]["uid"] != uid
    assert here.shown("Paused") == "False:ScaledObjectUnpaused"
    assert here.condition(SCALED_OBJECT, KEY, "Ready")["status"] == "True"
    assert here.reasons().count("ScaledObjectReady") == 1
    here.after(10)
    assert here.shown("Paused") == "False:ScaledObjectUnpaused"


def test_a_count_that_is_no_number_is_found_out_after_the_hpa_is_gone() -> None:
    """paused-replicas pauses whatever its value; the error stands in Ready and is retried."""
    here = running(replicas=3)
    here.annotate(paused_replicas="two")
    here.time.seconds += 1
    delay = here.worker.step()

    assert not here.has_hpa()
    assert here.cluster.scales[KEY] == 3
    assert '"two"' in here.condition(SCALED_OBJECT, KEY, "Ready")["message"]
    assert delay == pytest.approx(5)


def test_a_paused_count_holds_even_a_broken_object() -> None:
    """The triggers of a paused object are not looked at."""
    manifest = scaled_object(triggers=[{"type": "kafka", "metadata": {"lagThreshold": "0"}}])
    manifest["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"] = "7"
    here = world(manifest, replicas=2)
    here.worker.step()

    assert here.cluster.scales[KEY] == 7
    assert here.status()["pausedReplicaCount"] == 7


@pytest.mark.parametrize(
    ("annotation", "side"), [("paused_scale_in", "scaleDown"), ("paused_scale_out", "scaleUp")]
)
def test_pausing_one_direction_changes_the_hpa_in_place(annotation: str, side: str) -> None:
    """The loop continues; the side is Disabled, and given back when the annotation goes."""
    here = running()
    uid = here.hpa()["metadata"]["uid"]
    here.annotate(**{annotation: "true"})
    here.after(1)
    held = here.hpa()
    shown = here.shown("Paused")
    here.annotate(**{annotation: None})
    here.after(1)

    assert held["spec"]["behavior"][side]["selectPolicy"] == "Disabled"
    assert "behavior" not in here.hpa()["spec"]
    assert held["metadata"]["uid"] == here.hpa()["metadata"]["uid"] == uid
    assert (shown, here.shown("Paused")) == (
        "True:ScaledObjectPaused",
        "False:ScaledObjectUnpaused",
    )
    assert "KEDAScalersStopped" not in here.reasons()


def test_zero_is_neither_left_nor_reached_while_its_direction_is_paused() -> None:
    """paused-scale-out stops the activation, paused-scale-in the deactivation."""
    asleep = running(lag=0, replicas=0)
    asleep.annotate(paused_scale_out="true")
    asleep.source.lag = 50
    asleep.after(10)
    awake = running(lag=5, replicas=2, cooldownPeriod=0)
    awake.annotate(paused_scale_in="true")
    awake.source.lag = 0
    awake.after(60)
    held = awake.cluster.scales[KEY]
    awake.annotate(paused_scale_in=None)
    awake.after(10)

    assert asleep.cluster.scales[KEY] == 0
    assert asleep.shown("Active") == "True:ScalerActive"
    assert "lastActiveTime" not in asleep.status()
    assert (held, awake.cluster.scales[KEY]) == (2, 0)


def test_force_activation_wakes_the_target_without_lag() -> None:
    """The annotation counts as activity from the next poll on."""
    here = running(lag=0, replicas=0)
    here.annotate(force_activation="true")
    here.after(10)

    assert here.cluster.scales[KEY] == 1
    assert "activation is being forced" in here.condition(SCALED_OBJECT, KEY, "Active")["message"]
