"""What the API server says of an object's metadata."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.policy.admission.scaled_objects import manifest

from lagbench.core.policy.admission.answer import admit
from lagbench.core.policy.admission.cluster import ClusterView


@pytest.mark.parametrize(
    ("metadata", "code", "named"),
    [
        ({"resourceVersion": "1"}, 500, "resourceVersion"),
        ({"creationTimestamp": "now"}, 400, '"now"'),
        ({"creationTimestamp": "2026-11-21T18:00:00"}, 400, '"2026-11-21T18:00:00"'),
        ({"ownerReferences": [{"kind": "A", "name": "b"}]}, 422, "ownerReferences.uid"),
        ({"finalizers": ["keep it"]}, 422, '"keep it"'),
        ({"labels": {"/x": ""}}, 422, '"/x"'),
        ({"labels": {"a/": ""}}, 422, '"a/"'),
        ({"annotations": {"a/b/c": ""}}, 422, '"a/b/c"'),
    ],
)
def test_metadata_is_refused(metadata: dict[str, Any], code: int, named: str) -> None:
    """What the API server holds of every object."""
    given = manifest()
    given["metadata"] |= metadata

    found = admit(given, ClusterView())

    assert (found.code, found.refused_by) == (code, "apiserver")
    assert named in found.messages[0]


def test_a_stored_object_may_carry_its_version() -> None:
    """An update names the version that it is made from."""
    given = manifest()
    given["metadata"]["resourceVersion"] = "1"

    assert admit(given, ClusterView(scaled_objects=(given,))).is_accepted


def test_a_finalizer_without_a_domain_is_warned_of() -> None:
    """Stored anyway, with the API server's advice."""
    given = manifest()
    given["metadata"]["finalizers"] = ["keep", "finalizer.keda.sh", "a.b/c", "orphan"]

    found = admit(given, ClusterView())

    assert found.is_accepted
    assert [text.split(":")[1] for text in found.warnings] == [
        ' "finalizer.keda.sh"',
        ' "keep"',
    ]
