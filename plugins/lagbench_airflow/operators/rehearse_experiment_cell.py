"""Rehearse one cell of an experiment, or of an advice's proof, in a Dag run of its own."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.core.compare.experiment import MOST_ATTEMPTS
from lagbench.project import state_dir

if TYPE_CHECKING:
    from airflow.sdk import Context

RECORD_ORDER, RECORD_PROOF = "record_order", "record_proof"
# A repeated run is another Dag run, and the record of the first stays.
_AGAIN = "{{ '' if ti.try_number < 2 else '__try_' ~ ti.try_number }}"
_OF_PROOF = f"ti.xcom_pull(task_ids='{RECORD_PROOF}')"
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
            "trigger_run_id": f"experiment__{{{{ run_id }}}}__{run_key}{_AGAIN}",
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
        from lagbench.results.executions import read_progress, record_run
        from lagbench_airflow.run_lookup import require_folder_of

        super().execute_complete(context, event)
        folder = ExperimentFolder(Path(self.experiment_folder))
        run, runs = require_folder_of(event[1]["run_ids"][0]), read_progress(folder).schedule.runs
        planned = next(one for one in runs if one.key == self.run_key)
        record = record_run(folder, planned, run, now=time.time_ns())
        reason = record.reasons[0] if record.reasons else "no reason given"
        self.log.info("%s, run %s: %s", record.verdict, record.run_id, reason)
        if not record.is_measured and record.attempt < MOST_ATTEMPTS:
            raise AirflowException(f"run {record.run_id} gave no result: {reason}")
        return record.run_id


class RehearsePolicyOfAdviceOperator(RehearseExperimentCellOperator):
    """The same for one run of an advice's proof; a run that is kept is not repeated.

    A proof with fewer runs skips it. The policies are files that the Dag itself has written, so the
    conf is handed on as this task's own (``lagbench.orchestrator.sealed_conf``).

    :param number: place of the run in the recorded order, from 0.
    """

    template_fields = (*RehearseExperimentCellOperator.template_fields, "run_key")

    def __init__(self, *, number: int, **kwargs: Any) -> None:
        """Take everything from the task that records the order."""
        given: dict[str, Any] = {
            "run_key": f"{{{{ {_OF_PROOF}['keys'][{number}] }}}}",
            "task_id": f"prove_{number + 1}",
            "trigger_run_id": f"advice__{{{{ run_id }}}}__{number + 1}{_AGAIN}",
            "conf": f"{{{{ {_OF_PROOF}['confs'][{number}] | tojson }}}}",
        }
        super().__init__(**{**given, **kwargs})
        self.experiment_folder = f"{{{{ {_OF_PROOF}['folder'] }}}}"

    def execute(self, context: Context) -> None:
        """Trigger the run, if there is one to make."""
        from lagbench.orchestrator.sealed_conf import seal
        from lagbench.results.executions import is_kept

        if not self.run_key:
            raise AirflowSkipException("the proof has fewer runs")
        if is_kept(ExperimentFolder(Path(self.experiment_folder)), self.run_key):
            self.log.info("%s is kept already", self.run_key)
            return
        conf = json.loads(str(self.conf))
        self.conf = seal(state_dir(), conf, dag_run=str(self.trigger_run_id))
        super().execute(context)
