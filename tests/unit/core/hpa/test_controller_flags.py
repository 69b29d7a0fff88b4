"""Flags of the HPA's controller that an object sets for itself."""

from __future__ import annotations

import pytest

from lagbench.core.hpa.controller_flags import (
    SYNC_ANNOTATION,
    TOLERANCE_ANNOTATION,
    controller_flags,
)
from lagbench.errors import WrongInput


def flags(**annotations: str) -> object:
    """Return the flags of an object with these annotations."""
    names = {"sync": SYNC_ANNOTATION, "tolerance": TOLERANCE_ANNOTATION}
    found = {names[key]: value for key, value in annotations.items()}
    return controller_flags({"metadata": {"annotations": found}}, where="policy")


def test_without_annotations_those_of_kubernetes_are_in_force() -> None:
    """15 s and 10 %, also without any metadata."""
    found = controller_flags({}, where="policy")

    assert not found.are_set
    assert (found.sync_seconds_in_force, found.tolerance_in_force) == (15.0, 0.1)


def test_an_object_sets_its_own() -> None:
    """A tolerance of 0 is a value, and not the lack of one."""
    found = controller_flags(
        {"metadata": {"annotations": {SYNC_ANNOTATION: "5", TOLERANCE_ANNOTATION: "0"}}},
        where="policy",
    )

    assert found.are_set
    assert (found.sync_seconds_in_force, found.tolerance_in_force) == (5.0, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [{"sync": "4"}, {"sync": "soon"}, {"sync": "0"}, {"tolerance": "1"}, {"tolerance": "-0.1"}],
)
def test_a_wrong_value_is_named(wrong: dict[str, str]) -> None:
    """A sync that does not divide 15 s would move the phase of the run."""
    with pytest.raises(WrongInput) as refused:
        flags(**wrong)

    assert "lagbench.io/hpa-" in refused.value.field
    assert refused.value.value == next(iter(wrong.values()))
