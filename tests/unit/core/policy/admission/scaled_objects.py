"""ScaledObjects and workloads for the tests of the admission."""

from __future__ import annotations

import copy
from typing import Any

from lagbench.core.policy.admission.answer import Admission, FieldValidation, admit
from lagbench.core.policy.admission.cluster import ClusterView

TRIGGER: dict[str, Any] = {
    "type": "kafka",
    "metadata": {"bootstrapServers": "kafka:9092", "consumerGroup": "g", "topic": "t"},
}
CPU: dict[str, Any] = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
SPEC = {"scaleTargetRef": {"name": "w"}, "minReplicaCount": 1, "triggers": [TRIGGER]}


def manifest(name: str = "so", **spec: Any) -> dict[str, Any]:
    """Return a good ScaledObject with some fields of the spec replaced."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": "n"},
        "spec": {**copy.deepcopy(SPEC), **spec},
    }


def answer(
    cluster: ClusterView | None = None, mode: FieldValidation = "Strict", **spec: Any
) -> Admission:
    """Return the answer to that ScaledObject."""
    return admit(manifest(**spec), cluster or ClusterView(), field_validation=mode)


def workload(requests: dict[str, str] | None = None, **pod: Any) -> dict[str, Any]:
    """Return the Deployment that the ScaledObject scales."""
    container = {"name": "c", "resources": {"requests": requests or {}}}
    template = {"spec": {"containers": [container], **pod}}
    return {"kind": "Deployment", "metadata": {"name": "w"}, "spec": {"template": template}}
