"""Condition on the producer: the planned window or its Job has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from lagbench.errors import WrongInput
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading

if TYPE_CHECKING:
    from lagbench.adapters.kube.kube import Kube

JobEnd = Literal["complete", "failed", "gone"]
TrafficEnd = JobEnd | Literal["planned window ended"]


class TrafficFinishedTrigger(ConditionTrigger):
    """Fires when the planned window has ended, or when the Job has completed or failed.

    ``ends_at`` (unix seconds) is the end of the planned window if a tail follows it; None: the
    end of the Job is the end of the traffic.
    """

    def __init__(
        self, *, job: str, ends_at: float | None, kubernetes_conn_id: str, **bounds: float
    ) -> None:
        """Name the Job and the connection."""
        super().__init__(**bounds)
        self.job = job
        self.ends_at = ends_at
        self.kubernetes_conn_id = kubernetes_conn_id

    def parameters(self) -> dict[str, Any]:
        """Return the arguments."""
        return {
            "job": self.job,
            "ends_at": self.ends_at,
            "kubernetes_conn_id": self.kubernetes_conn_id,
        }

    def read(self) -> Reading:
        """Check the clock and the Job."""
        end = traffic_end(self.clients.kube(self.kubernetes_conn_id), self.job, self.ends_at)
        if end == "gone":
            raise WrongInput(
                where=f"Job/{self.job}",
                field="existence",
                value="gone",
                allowed="a Job that stays until its traffic has ended; start a new run",
            )
        return Reading(is_met=end is not None, seen={"traffic": end or "running"})


def traffic_end(kube: Kube, job: str, ends_at: float | None) -> TrafficEnd | None:
    """Return how the planned traffic ended, None while it runs.

    With a tail the Job outlives it; after the tail the run deletes the Job.
    """
    end = job_end(kube, job)
    is_over = ends_at is not None and time.time() >= ends_at
    return "planned window ended" if is_over and end in (None, "gone") else end


def job_end(kube: Kube, job: str) -> JobEnd | None:
    """Return how the Job ended, None while it runs."""
    found = kube.get("Job", job)
    if found is None:
        return "gone"
    for condition in (found.get("status") or {}).get("conditions") or []:
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            return "complete" if condition["type"] == "Complete" else "failed"
    return None
