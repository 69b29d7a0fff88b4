"""Who is compared: KEDA and the hand-rolled controller on the same policies, and the bare rule.

Each object stands three times, taken up 5 s apart: where a sync falls between two changes of the
lag decides more than anything else, and that way each column meets the lag in three places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from lagbench.core.keda.loop.handover import CONTROLLER, SCALED_BY
from lagbench.core.keda.object import PAUSED
from lagbench.project import PROJECT_ROOT
from tests.cluster.rig.images import PAUSE
from tests.cluster.stability.histories import CEILING, FLOOR, LAG_THRESHOLD

PHASES = 3
NAMESPACE, BARE_NAMESPACE = "stability", "stability-bare"
_AT_ONCE = {
    "stabilizationWindowSeconds": 0,
    "policies": [{"type": "Pods", "value": CEILING, "periodSeconds": 1}],
}


@dataclass(frozen=True, slots=True)
class Column:
    """One controller on one policy; ``policy`` None: up and down at once, whatever it takes."""

    name: str
    is_ours: bool
    policy: str | None
    namespace: str = NAMESPACE

    @property
    def objects(self) -> list[str]:
        """The names of its Deployments and ScaledObjects, by phase."""
        return [f"{self.name}-{phase}" for phase in range(PHASES)]

    @property
    def first(self) -> str:
        """An object before all others, not counted: a controller's first one costs it seconds."""
        return f"{self.name}-first"


COLUMNS = (
    Column("keda-calm", is_ours=False, policy="lag-standard"),
    Column("own-calm", is_ours=True, policy="lag-standard"),
    Column("keda-hasty", is_ours=False, policy="lag-no-hysteresis"),
    Column("own-hasty", is_ours=True, policy="lag-no-hysteresis"),
    Column("bare", is_ours=True, policy=None, namespace=BARE_NAMESPACE),
)
# The lab's rule: the lag by the threshold, rounded up, every 5 s; no tolerance, no window, no rate.
BARE_FLAGS = ("--hpa-sync-seconds=5", "--hpa-tolerance=0")


def scaled_object(column: Column, name: str, trigger: dict[str, str]) -> dict[str, Any]:
    """Return an object of a column with the same bounds, threshold and trigger as all others."""
    marks = {SCALED_BY: CONTROLLER, PAUSED: "true"} if column.is_ours else {}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": column.namespace, "annotations": marks},
        "spec": {
            "scaleTargetRef": {"name": name},
            "minReplicaCount": FLOOR,
            "maxReplicaCount": CEILING,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior(column)}},
            "triggers": [
                {"type": "kafka", "metadata": {**trigger, "lagThreshold": str(LAG_THRESHOLD)}}
            ],
        },
    }


def deployment(column: Column, name: str) -> dict[str, Any]:
    """Return a Deployment whose pods are held back from ever being scheduled.

    They count in status.replicas, which is all that a lag policy looks at, and cost nothing: the
    machine's load would otherwise grow with the replicas and shift the clocks that are compared.
    """
    labels = {"app": name}
    pod = {
        "schedulingGates": [{"name": "lagbench.io/counted-only"}],
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": PAUSE, "imagePullPolicy": "Never"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": column.namespace},
        "spec": {
            "replicas": FLOOR,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _behavior(column: Column) -> dict[str, Any]:
    if column.policy is None:
        return {"scaleUp": _AT_ONCE, "scaleDown": _AT_ONCE}
    path = PROJECT_ROOT / "k8s" / "policies" / f"{column.policy}.yaml"
    policy = yaml.safe_load(path.read_text(encoding="utf-8"))
    found: dict[str, Any] = policy["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    return found
