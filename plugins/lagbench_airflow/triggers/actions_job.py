"""Condition on the player of the actions: its Job has ended."""

from __future__ import annotations

from typing import Any

from lagbench_airflow.triggers.condition import ConditionTrigger, Reading
from lagbench_airflow.triggers.producer_job import job_end


class ActionsPlayedTrigger(ConditionTrigger):
    """Fires when the Job has completed, failed or was deleted; at once if there is none (empty)."""

    def __init__(self, *, job: str, kubernetes_conn_id: str, **bounds: float) -> None:
        """Name the Job and the connection."""
        super().__init__(**bounds)
        self.job = job
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {"job": self.job, "kubernetes_conn_id": self.kubernetes_conn_id}

    def read(self) -> Reading:
        """Look at the Job."""
        if not self.job:
            return Reading(is_met=True, seen={"actions": "none"})
        end = job_end(self.clients.kube(self.kubernetes_conn_id), self.job)
        return Reading(
            is_met=end == "complete",
            seen={"actions": end or "running"},
            is_moot=end in ("failed", "gone"),
        )
