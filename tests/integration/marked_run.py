"""Mark a run of the Dag scenario_run as failed, and let Airflow's scheduler logic end it.

``python -m tests.integration.marked_run TASK`` marks it when TASK is next, and prints which tasks
were scheduled after that, the run's state, and what its page says (JSON). With a second argument
TASK itself fails, and that is its message (empty: it never started). No task is executed: each that
is scheduled succeeds at once, and ``require_verdict`` fails. A process of its own, because Airflow
keeps one database for each.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.project import PROJECT_ROOT
from lagbench_airflow.pages.airflow_runs import airflow_run
from lagbench_airflow.task_life import REFUSED

from airflow._shared.timezones import timezone  # isort: skip
from airflow.api.common.mark_tasks import set_dag_run_state_to_failed  # isort: skip
from airflow.dag_processing.bundles.manager import DagBundlesManager  # isort: skip
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db  # isort: skip
from airflow.models.xcom import XComModel  # isort: skip
from airflow.serialization.serialized_objects import DagSerialization  # isort: skip
from airflow.utils.db import initdb  # isort: skip
from airflow.utils.session import create_session  # isort: skip
from airflow.utils.state import DagRunState, TaskInstanceState  # isort: skip
from airflow.utils.types import DagRunTriggeredByType, DagRunType  # isort: skip

BUNDLE = "dags-folder"
DAG_ID = "scenario_run"
MAX_STEPS = 100


def end_of_run(marked_before: str, failure: str | None) -> tuple[list[str], str, dict[str, Any]]:
    """Return the tasks that are scheduled after the mark, the run's state, and its page's facts."""
    initdb()
    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(str(PROJECT_ROOT / "dags" / f"{DAG_ID}.py"), bundle_name=BUNDLE)
    sync_bag_to_db(bag, BUNDLE, None)
    dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(bag.dags[DAG_ID]))
    after: list[str] = []
    is_marked = False
    with create_session() as session:
        run = dag.create_dagrun(
            run_id="marked",
            run_after=timezone.utcnow(),
            run_type=DagRunType.MANUAL,
            state=DagRunState.RUNNING,
            triggered_by=DagRunTriggeredByType.TEST,
            session=session,
        )
        session.commit()
        for _ in range(MAX_STEPS):
            scheduled, _callback = run.update_state(session=session)
            session.commit()
            if run.state != DagRunState.RUNNING:
                break
            of_task = [ti for ti in scheduled if ti.task_id == marked_before]
            if of_task and failure is not None:
                of_task[0].state = TaskInstanceState.FAILED
                if failure:
                    names = {"dag_id": DAG_ID, "task_id": marked_before, "run_id": run.run_id}
                    XComModel.set(REFUSED, failure, **names, serialize=False, session=session)
                session.commit()
                continue
            if not is_marked and of_task:
                set_dag_run_state_to_failed(
                    dag=dag, run_id=run.run_id, commit=True, session=session
                )
                session.commit()
                session.expire_all()
                is_marked = True
                continue
            after += [ti.task_id for ti in scheduled if is_marked]
            for ti in scheduled:
                is_last = ti.task_id == "require_verdict"
                ti.state = TaskInstanceState.FAILED if is_last else TaskInstanceState.SUCCESS
            session.commit()
        state = str(run.state)
    page = airflow_run(DAG_ID, "marked")
    assert page is not None
    return after, state, asdict(page)


if __name__ == "__main__":
    print(json.dumps(end_of_run(sys.argv[1], (sys.argv[2:] or [None])[0])))  # noqa: T201
