"""Rehearse one cell of an experiment, in a Dag run of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.exceptions import AirflowException

from lagbench.core.compare.experiment import MOST_ATTEMPTS

if TYPE_CHECKING:
    from airflow.sdk import Context

RECORD_ORDER = "record_order"
# A repeated run is another Dag run, and the record of the first stays.
_TRIGGERED = (
    "experiment__{{{{ run_id }}}}__{key}"
    "{{{{ '' if ti.try_number < 2 else '__try_' ~ ti.try_number }}}}"
)
_OF_ORDER = f"ti.xcom_pull(task_ids='{RECORD_ORDER}')"


class RehearseExperimentCellOperator(TriggerDagRunOperator):
    """Trigger ``scenario_run`` for one planned run, wait for it, and keep its measures.

    After success: the run is recorded in the experiment's folder. A missed SLO is a result. A run
    that is not a result (``RunRecord.is_measured``) or has no verdict fails the task, whose retry
    repeats the run; one that is not a result again is a gap, and the experiment continues.

    :param run_key: name of the run in the schedule, e.g. ``pair_1_range``.
    """

    template_fields = (*TriggerDagRunOperator.template_fields, "experiment_folder")

    def __init__(self, *, run_key: str, **kwargs: Any) -> None:
        """Take folder and conf from the task that records the order."""
        given: dict[str, Any] = {
            "task_id": run_key,
            "trigger_dag_id": "scenario_run",
            "trigger_run_id": _TRIGGERED.format(key=run_key),
            "conf": f"{{{{ {_OF_ORDER}['confs']['{run_key}'] | tojson }}}}",
            "reset_dag_run": False,
            "wait_for_completion": True,
            "deferrable": True,
            "poke_interval": 10,
            "allowed_states": ["success", "failed"],
            "failed_states": [],
            # One for a run without a verdict, one for a run without a result.
            "retries": 2,
        }
        super().__init__(**{**given, **kwargs})
        self.run_key = run_key
        self.experiment_folder = f"{{{{ {_OF_ORDER}['folder'] }}}}"

    def execute_complete(self, context: Context, event: tuple[str, dict[str, Any]]) -> str:
        """Keep the run that has ended; return its id."""
        from lagbench_airflow.experiment_runs import keep_run

        super().execute_complete(context, event)
        record = keep_run(self.experiment_folder, self.run_key, event[1]["run_ids"][0])
        reason = record.reasons[0] if record.reasons else "no reason given"
        self.log.info("%s, run %s: %s", record.verdict, record.run_id, reason)
        if not record.is_measured and record.attempt < MOST_ATTEMPTS:
            raise AirflowException(f"run {record.run_id} gave no result: {reason}")
        return record.run_id
