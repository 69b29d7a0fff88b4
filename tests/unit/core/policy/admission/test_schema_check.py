"""What the API server says of values of another type, and of fields in the wrong place."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.policy.admission.scaled_objects import answer, manifest

from lagbench.core.policy.admission.answer import admit
from lagbench.core.policy.admission.cluster import ClusterView


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"scaleTargetRef": [{"name": "w"}]}, "spec.scaleTargetRef[0].name"),
        ({"triggers": {"type": "kafka"}}, "spec.triggers.type"),
    ],
)
def test_fields_in_the_wrong_place_are_unknown(spec: dict[str, Any], path: str) -> None:
    """Where the schema wants something else, it knows none of the fields below."""
    assert f'unknown field "{path}"' in answer(**spec).reasons


def test_the_status_is_dropped_but_its_fields_are_known() -> None:
    """A person's status is not looked at, apart from the names in it."""
    given = manifest()
    given["status"] = {"hpaName": 5}
    wrong = {**given, "status": {"phase": "Running"}}

    assert admit(given, ClusterView()).is_accepted
    assert admit(wrong, ClusterView()).reasons == ('unknown field "status.phase"',)


@pytest.mark.parametrize(
    ("count", "found"),
    [(10.0, None), (2.0**53, "number"), (2**63, "number"), (1.5, "number"), (2**62, "integer")],
)
def test_what_counts_as_a_whole_number(count: float, found: str | None) -> None:
    """A float does while floats count one by one, an int while an int64 holds it."""
    answered = answer(maxReplicaCount=count)

    if found == "number":
        (error,) = answered.field_errors
        assert (error.field, error.value) == ("spec.maxReplicaCount", "number")
    else:
        assert answered.refused_by == (None if found is None else "webhook")


def test_an_int_or_string_is_named_three_times() -> None:
    """The schema says it as a type and as alternatives, and the API server answers to both."""
    behavior = {"scaleUp": {"tolerance": True}}
    found = answer(advanced={"horizontalPodAutoscalerConfig": {"behavior": behavior}})

    assert [error.value for error in found.field_errors] == ["boolean", "", "boolean"]
