"""Ask a person before a run against a cluster, where other workloads may feel its load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator

from lagbench.catalog.conf import EXPERIMENT
from lagbench.orchestrator.sealed_conf import SEALED
from lagbench_airflow.hooks import target
from lagbench_airflow.operators.approve_advice import can_be_answered

if TYPE_CHECKING:
    from airflow.sdk import Context


class ApproveRunOperator(ApprovalOperator):
    """Wait for the answer in Airflow's page of required actions; a rejected run fails here.

    It does not wait on the embedded bench, with ``ask`` off in the conf, for a Dag whose starter
    has answered (experiments, advice), or under ``lagbench run``, whose ``--target`` is the answer.
    """

    def execute(self, context: Context) -> Any:
        """Park the task until the answer, or end it."""
        params = context["params"]
        is_answered = not params["ask"] or params.get(SEALED) or params.get(EXPERIMENT)
        if target.is_embedded() or is_answered or not can_be_answered():
            self.log.info("no answer is needed")
            return None
        return super().execute(context)
