"""The workload and the policy of a group that is observed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lagbench.adapters.kube.kube import Kube
from lagbench.errors import LagbenchError, NotAllowed, UnknownKind
from lagbench.orchestrator.observed_target import find_workload

DEPLOYMENT = {"spec": {"selector": {"matchLabels": {"app": "shop"}}}}
HPA = {
    "metadata": {"name": "shop-hpa"},
    "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "shop"}},
}
DENIED = NotAllowed("could not list ScaledObject: answered 403")
NOT_SERVED = UnknownKind("does not serve that kind")


class Cluster:
    """A namespace whose objects of a kind are a list, or an error."""

    namespace = "default"

    def __init__(self, **kinds: list[dict[str, Any]] | LagbenchError) -> None:
        """Hold the answer for each kind."""
        self._kinds = kinds

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the Deployment shop, and no other object."""
        return DEPLOYMENT if (kind, name) == ("Deployment", "shop") else None

    def list(self, kind: str) -> list[dict[str, Any]]:
        """Return or raise the answer for the kind."""
        found = self._kinds[kind]
        if isinstance(found, LagbenchError):
            raise found
        return found


@pytest.mark.parametrize(
    ("scaled_objects", "hpas", "policy", "unread"),
    [
        (NOT_SERVED, [HPA], "HorizontalPodAutoscaler shop-hpa", []),
        (NOT_SERVED, [], None, []),
        ([], [], None, []),
        (DENIED, [], None, ["ScaledObject: could not list"]),
        (DENIED, [HPA], "HorizontalPodAutoscaler shop-hpa", ["ScaledObject: could not list"]),
        (DENIED, DENIED, None, ["ScaledObject: ", "HorizontalPodAutoscaler: "]),
    ],
)
def test_a_policy_that_cannot_be_read_is_not_called_none(
    scaled_objects: Any, hpas: Any, policy: str | None, unread: list[str]
) -> None:
    """A kind that is not served scales nothing; one that may not be read is unknown, with why."""
    cluster = Cluster(ScaledObject=scaled_objects, HorizontalPodAutoscaler=hpas)

    found = find_workload(cast("Kube", cluster), "shop", None)

    assert found.policy_name == policy
    assert all(part in found.policy_unknown for part in unread)
    assert bool(found.policy_unknown) == bool(unread)
