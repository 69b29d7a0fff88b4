"""The annotations that pause scaling or force activation."""

from typing import Any

import pytest

from lagbench.core.keda.object.annotations import ScalingAnnotations, parse_scaling_annotations

PREFIX = "autoscaling.keda.sh"


def annotated(**given: str) -> dict[str, Any]:
    """Return an object with KEDA's annotations, underscores for dashes."""
    annotations = {f"{PREFIX}/{key.replace('_', '-')}": value for key, value in given.items()}
    return {"metadata": {"name": "w", "annotations": annotations}}


@pytest.mark.parametrize(
    ("value", "is_paused"),
    [("true", True), ("yes", True), ("", True), ("false", False), ("0", False)],
)
def test_what_is_no_boolean_counts_as_true(value: str, is_paused: bool) -> None:
    """Only what Go reads as false leaves the object running."""
    assert parse_scaling_annotations(annotated(paused=value)).is_paused == is_paused


def test_paused_replicas_pauses_whatever_it_says() -> None:
    """A count pauses at that count, and wins over ``paused: false``."""
    found = parse_scaling_annotations(annotated(paused="false", paused_replicas="3"))

    assert (found.is_paused, found.paused_replicas) == (True, 3)
    assert not found.paused_replicas_problem


@pytest.mark.parametrize("value", ["abc", "3000000000"])
def test_a_count_that_is_no_number(value: str) -> None:
    """The object is paused, and KEDA's complaint about the count is kept."""
    found = parse_scaling_annotations(annotated(paused_replicas=value))

    assert (found.is_paused, found.paused_replicas) == (True, None)
    assert f'"{value}"' in found.paused_replicas_problem


def test_one_direction_can_be_held_back() -> None:
    """Scale-in, scale-out and forced activation are told apart, and none of them pauses."""
    found = parse_scaling_annotations(
        annotated(paused_scale_in="true", paused_scale_out="false", force_activation="t")
    )

    assert found == ScalingAnnotations(scale_in_paused=True, forces_activation=True)


@pytest.mark.parametrize("manifest", [{}, {"metadata": None}, {"metadata": {"annotations": None}}])
def test_no_annotations(manifest: dict[str, Any]) -> None:
    """Without annotations nothing is held back, however little there is of the object."""
    assert parse_scaling_annotations(manifest) == ScalingAnnotations()
