"""Condition on the producer's Job: it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lagbench.errors import WrongInput
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading

if TYPE_CHECKING:
    from lagbench.adapters.kube import Kube

JobEnd = Literal["complete", "failed", "gone"]


class ProducerEndedTrigger(ConditionTrigger):
    """Fires when the Job has completed or failed; both end the traffic."""

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
        end = job_end(self.clients.kube(self.kubernetes_conn_id), self.job)
        if end == "gone":
            raise WrongInput(
                where=f"Job/{self.job}",
                field="existence",
                value="gone",
                allowed="a Job that stays until the run's teardown; start a new run",
            )
        return Reading(is_met=end is not None, seen={"job": end or "running"})


def job_end(kube: Kube, job: str) -> JobEnd | None:
    """Return how the Job ended, None while it runs."""
    found = kube.get("Job", job)
    if found is None:
        return "gone"
    for condition in (found.get("status") or {}).get("conditions") or []:
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            return "complete" if condition["type"] == "Complete" else "failed"
    return None
