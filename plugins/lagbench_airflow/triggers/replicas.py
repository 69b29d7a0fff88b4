"""Condition on the consumers' workload: back at rest, no change in progress."""

from __future__ import annotations

from typing import Any

from lagbench.core.measures.evidence import FINAL_PHASES
from lagbench.core.scenario import CONSUMER_DEPLOYMENT, RUN_ID_LABEL
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading


class ReplicasSettledTrigger(ConditionTrigger):
    """Fires when wanted, ready and existing pods are equal, from ``least`` to ``most``."""

    def __init__(
        self,
        *,
        run_id: str,
        workload: str,
        least: int,
        most: int,
        kubernetes_conn_id: str,
        **bounds: float,
    ) -> None:
        """Name the run, the kind of its workload, the counts and the connection."""
        super().__init__(**bounds)
        self.run_id, self.workload = run_id, workload
        self.least, self.most = least, most
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            "run_id": self.run_id,
            "workload": self.workload,
            "least": self.least,
            "most": self.most,
            "kubernetes_conn_id": self.kubernetes_conn_id,
        }

    def read(self) -> Reading:
        """Count the pods; a terminating pod exists and counts, one that has ended does not.

        A node short of memory leaves the evicted pods behind as failed.
        """
        kube = self.clients.kube(self.kubernetes_conn_id)
        workload = kube.get(self.workload, CONSUMER_DEPLOYMENT) or {}
        pods = kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={self.run_id}")
        spec, status = workload.get("spec") or {}, workload.get("status") or {}
        mine = [pod for pod in pods if _is_consumer(pod) and not _has_ended(pod)]
        seen = {
            "wanted": spec.get("replicas"),
            "ready": status.get("readyReplicas") or 0,
            "existing": len(mine),
            "at_rest": f"{self.least} to {self.most}",
        }
        is_still = seen["wanted"] == seen["ready"] == seen["existing"]
        is_met = is_still and self.least <= len(mine) <= self.most
        return Reading(is_met=is_met, seen=seen)


def _is_consumer(pod: dict[str, Any]) -> bool:
    """Return whether the pod is a consumer, by the name that the workload gives it."""
    return str(pod["metadata"]["name"]).startswith(f"{CONSUMER_DEPLOYMENT}-")


def _has_ended(pod: dict[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in FINAL_PHASES
