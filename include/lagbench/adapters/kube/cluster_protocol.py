"""Define the part of the Kubernetes API that the autoscaler uses, as a Protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lagbench.core.hpa.hpa_object import ScaleTarget
from lagbench.errors import NotReady

Manifest = dict[str, Any]
ObjectKey = tuple[str, str]  # namespace (empty for cluster-wide kinds), name
Snapshot = Mapping[ObjectKey, Manifest]

SCALED_OBJECT = ("keda.sh/v1alpha1", "ScaledObject")
HPA = ("autoscaling/v2", "HorizontalPodAutoscaler")
POD = ("v1", "Pod")
POD_METRICS = ("metrics.k8s.io/v1beta1", "PodMetrics")
EVENT = ("v1", "Event")
SERVICE = ("v1", "Service")
SECRET = ("v1", "Secret")
CONFIG_MAP = ("v1", "ConfigMap")
TRIGGER_AUTHENTICATION = ("keda.sh/v1alpha1", "TriggerAuthentication")
CLUSTER_TRIGGER_AUTHENTICATION = ("keda.sh/v1alpha1", "ClusterTriggerAuthentication")
Kind = tuple[str, str]


class ClusterError(NotReady):
    """The API server rejected or did not answer; ``status`` 0: no answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        """Keep the HTTP status for callers that distinguish 404 from the others."""
        super().__init__(message)
        self.status = status

    @property
    def is_not_found(self) -> bool:
        """Return whether the object or its kind is not there."""
        return self.status == 404


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource of a workload."""

    spec_replicas: int
    status_replicas: int
    selector: str


class Cluster(Protocol):
    """The calls in use; every one is bounded in time and raises ``ClusterError``."""

    def follow(
        self, kind: Kind, seen: Callable[[Snapshot], None], is_over: Callable[[], bool]
    ) -> None:
        """Call ``seen`` with all objects of a kind at once and after each change."""
        ...

    def get(self, kind: Kind, key: ObjectKey) -> Manifest:
        """Return an object."""
        ...

    def list(self, kind: Kind, namespace: str, label_selector: str) -> list[Manifest]:
        """Return the objects of a namespace that carry the labels."""
        ...

    def create(self, manifest: Manifest) -> Manifest:
        """Create an object and return it as stored."""
        ...

    def replace(self, manifest: Manifest) -> Manifest:
        """Replace an object (optimistic: its resourceVersion must be current)."""
        ...

    def delete(self, kind: Kind, key: ObjectKey) -> None:
        """Delete an object; a missing object is fine."""
        ...

    def patch(self, kind: Kind, key: ObjectKey, change: Manifest, *, subresource: str = "") -> None:
        """Merge ``change`` into an object or its subresource."""
        ...

    def get_scale(self, target: ScaleTarget, namespace: str) -> Scale:
        """Return the target's scale subresource."""
        ...

    def set_replicas(self, target: ScaleTarget, namespace: str, replicas: int) -> None:
        """Set the replicas of the target through its scale subresource."""
        ...


def key_of(manifest: Mapping[str, Any]) -> ObjectKey:
    """Return namespace and name of an object."""
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
