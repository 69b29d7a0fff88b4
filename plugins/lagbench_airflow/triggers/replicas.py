"""Condition on the consumers' workload: back at rest, no change in progress."""

from __future__ import annotations

from typing import Any

from lagbench.core.measures.evidence import FINAL_PHASES
from lagbench.core.scenario import RUN_ID_LABEL, RunNames
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
        is_second: bool = False,
        **bounds: float,
    ) -> None:
        """Name the run, which of its groups, its workload's kind, counts and connection."""
        super().__init__(**bounds)
        self.run_id, self.is_second, self.workload = run_id, is_second, workload
        self.least, self.most = least, most
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            "run_id": self.run_id,
            "is_second": self.is_second,
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
        name = RunNames(self.run_id, is_second=self.is_second).consumers
        workload = kube.get(self.workload, name) or {}
        pods = kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={self.run_id}")
        spec, status = workload.get("spec") or {}, workload.get("status") or {}
        mine = [pod for pod in pods if _is_of(name, pod) and not _has_ended(pod)]
        seen = {
            "wanted": spec.get("replicas"),
            "ready": status.get("readyReplicas") or 0,
            "existing": len(mine),
            "at_rest": f"{self.least} to {self.most}",
        }
        is_still = seen["wanted"] == seen["ready"] == seen["existing"]
        is_met = is_still and self.least <= len(mine) <= self.most
        return Reading(is_met=is_met, seen=seen)


def _is_of(workload: str, pod: dict[str, Any]) -> bool:
    """Return whether the pod is one of the workload, by the name that it gives to its pods."""
    return str(pod["metadata"]["name"]).startswith(f"{workload}-")


def _has_ended(pod: dict[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in FINAL_PHASES
