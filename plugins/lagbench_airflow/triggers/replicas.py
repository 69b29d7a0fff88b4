"""Condition on a workload: all its pods as wanted, no change in progress."""

from __future__ import annotations

from typing import Any

from lagbench.core.kubernetes import is_rolled_out, selector_string, wanted_replicas
from lagbench.core.measures.evidence import FINAL_PHASES
from lagbench.core.scenario import RUN_ID_LABEL
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading


class ReplicasSettledTrigger(ConditionTrigger):
    """Fires when wanted, available and existing pods are equal, from ``least`` to ``most``.

    All are of the newest template: a rollout is a change in progress. ``most`` None: no limit;
    ``namespace`` None: the namespace of the connection. ``run_id``: only pods with the run's label
    count, because those of others may have the same name and ``app``.
    """

    def __init__(
        self,
        *,
        workload: str,
        kubernetes_conn_id: str,
        kind: str = "Deployment",
        namespace: str | None = None,
        least: int = 0,
        most: int | None = None,
        run_id: str | None = None,
        **bounds: float,
    ) -> None:
        """Name the workload, its kind and namespace, the counts and the connection."""
        super().__init__(**bounds)
        self.workload, self.kind, self.namespace = workload, kind, namespace
        self.least, self.most, self.run_id = least, most, run_id
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            "workload": self.workload,
            "kind": self.kind,
            "namespace": self.namespace,
            "least": self.least,
            "most": self.most,
            "run_id": self.run_id,
            "kubernetes_conn_id": self.kubernetes_conn_id,
        }

    def read(self) -> Reading:
        """Count the pods; a terminating pod exists and counts, one that has ended does not.

        A node short of memory leaves the evicted pods behind as failed.
        """
        kube = self.clients.kube(self.kubernetes_conn_id)
        if self.namespace is not None:
            kube = kube.elsewhere(self.namespace)
        workload = kube.get(self.kind, self.workload)
        if workload is None:
            return Reading(is_met=False, seen={self.kind: f"{self.workload} does not exist"})
        pods = [
            pod
            for pod in kube.list("Pod", label_selector=self._selector(workload))
            if _is_of(self.workload, pod) and not _has_ended(pod)
        ]
        wanted, status = wanted_replicas(workload), workload.get("status") or {}
        is_in_range = self.least <= wanted and (self.most is None or wanted <= self.most)
        seen = {
            "wanted": wanted,
            "updated": status.get("updatedReplicas") or 0,
            "available": status.get("availableReplicas") or 0,
            "existing": len(pods),
            "at_rest": f"{self.least} to {'any' if self.most is None else self.most}",
        }
        is_still = is_rolled_out(workload) and len(pods) == wanted
        return Reading(is_met=is_still and is_in_range, seen=seen)

    def _selector(self, workload: dict[str, Any]) -> str:
        own = selector_string((workload.get("spec") or {}).get("selector") or {})
        of_run = "" if self.run_id is None else f"{RUN_ID_LABEL}={self.run_id}"
        return ",".join(filter(None, (own, of_run)))


def _is_of(workload: str, pod: dict[str, Any]) -> bool:
    """Return whether the pod is one of the workload, by the name that it gives to its pods."""
    return str(pod["metadata"]["name"]).startswith(f"{workload}-")


def _has_ended(pod: dict[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in FINAL_PHASES
