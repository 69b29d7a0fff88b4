"""Ask a person before a run against a cluster, and before an advised policy is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.execution_time import task_runner

from lagbench.catalog.conf import EXPERIMENT
from lagbench.orchestrator.sealed_conf import SEALED
from lagbench.results.cell_run import CellRun
from lagbench.results.phases import record_phase
from lagbench_airflow.hooks import target

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lagbench.adapters.runs.run_folder import RunFolder


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


class ApproveRunOperator(ApprovalOperator):
    """Wait for the answer in Airflow's page of required actions; a rejected run fails here.

    It does not wait on the embedded bench, with ``ask`` off in the conf, for a Dag whose starter
    has answered (experiments, advice), or under ``lagbench run``, whose ``--target`` is the answer.
    The run folder has question and answer as a phase.
    """

    def execute(self, context: Context) -> Any:
        """Park the task until the answer, or end it."""
        params = context["params"]
        is_answered = not params["ask"] or params.get(SEALED) or params.get(EXPERIMENT)
        if target.is_embedded() or is_answered or not can_be_answered():
            self.log.info("no answer is needed")
            return None
        record_phase(_planned_folder(context), self.task_id, "started")
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Take the answer; without one in time the scheduler gives the default."""
        folder, user = _planned_folder(context), event.get("responded_by_user")
        who = user["name"] if user else "the default, after the time limit"
        try:
            answer = super().execute_complete(context, event)
        except HITLRejectException as error:
            text = f"rejected by {who}"
            record_phase(folder, self.task_id, "failed", detail=text)
            raise HITLRejectException(text) from error
        record_phase(folder, self.task_id, "finished", detail=f"approved by {who}")
        return answer


def _planned_folder(context: Context) -> RunFolder:
    return CellRun.open(context["ti"].xcom_pull(task_ids="plan_cell")["run_id"]).folder
