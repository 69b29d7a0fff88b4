"""Ask a person whether the advised policy is written, unless the run's conf has answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.execution_time import task_runner

if TYPE_CHECKING:
    from airflow.sdk import Context


class ApproveAdviceOperator(ApprovalOperator):
    """Wait for the answer in Airflow's page of required actions; rejected skips what follows.

    With ``ask`` off in the conf, the person who started the run has approved: it does not wait.
    """

    def execute(self, context: Context) -> Any:
        """Park the task until the answer, or end it."""
        if context["params"]["ask"]:
            return super().execute(context)
        self.log.info("approved by the conf of the run: ask is off")
        return None


def can_be_answered() -> bool:
    """Return whether a run waits for people: not in one process (``airflow dags test``).

    That one would wait for ever: no scheduler ends the time for an answer, or starts another run.
    """
    comms = getattr(task_runner, "SUPERVISOR_COMMS", None)
    return type(comms).__name__ != "InProcessSupervisorComms"
