"""Which ScaledObjects are the hand-rolled controller's, by annotations alone."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.keda.loop.handover import (
    CONTROLLER,
    SCALED_BY,
    as_driven,
    hpa_on_target,
    is_driven,
    is_handed_over,
    unpaused_problem,
    with_paused_of,
)
from lagbench.core.keda.loop.scale_loop import READY
from lagbench.core.keda.object.spec import PAUSED, PAUSED_REPLICAS

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
