"""What the pages read of Airflow's database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench_airflow.pages import airflow_runs

from airflow.models import import_all_models  # isort: skip
from airflow.models.base import Base  # isort: skip
from airflow.models.dagrun import DagRun  # isort: skip
from airflow.models.taskinstance import TaskInstance  # isort: skip
from airflow.utils.types import DagRunType  # isort: skip
from sqlalchemy import create_engine, insert, update  # isort: skip
from sqlalchemy.orm import Session  # isort: skip


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Provide a database with the table of Dag runs alone."""
    engine = create_engine("sqlite://")
    DagRun.__table__.create(engine)
    monkeypatch.setattr(airflow_runs, "create_session", lambda: Session(engine))
    with Session(engine) as opened:
        yield opened


def test_who_started_a_run_is_no_other_dag_s_user(session: Session) -> None:
    """Ids of Dag runs are of one Dag, and a reader of our runs may not see other Dags."""
    kinds = {"manual__1": DagRunType.MANUAL, "rehearsal__a": DagRunType.OPERATOR_TRIGGERED}
    for dag_id, user in (("other", "eve"), ("scenario_run", "ada"), ("another", "eve")):
        for run_id, kind in kinds.items():
            who = user if kind is DagRunType.MANUAL else None
            made = {"dag_id": dag_id, "run_id": run_id, "run_type": kind}
            session.add(made_run(**made, triggering_user_name=who))
    session.add(made_run(dag_id="other", run_id="alone", run_type=DagRunType.MANUAL))
    session.commit()

    found = airflow_runs.started_by(["manual__1", "rehearsal__a", "alone"])

    assert found == {"manual__1": "ada", "rehearsal__a": "operator triggered"}


def test_a_run_whose_input_was_rejected_has_ended(session: Session) -> None:
    """Nothing of it begins any more, although its last task is still to come."""
    import_all_models()
    Base.metadata.create_all(session.get_bind())
    session.add(made_run(dag_id="scenario_run", run_id="r", run_type="manual", state="running"))
    task = {"dag_id": "scenario_run", "run_id": "r", "task_id": "plan_cell", "map_index": -1}
    rest = {"id": uuid4(), "pool": "default_pool", "pool_slots": 1, "try_number": 1}
    session.execute(insert(TaskInstance).values(**task, **rest, state="running"))
    session.commit()

    begun = airflow_runs.airflow_run("scenario_run", "r")
    session.execute(update(TaskInstance).values(state="failed"))
    session.commit()
    rejected = airflow_runs.airflow_run("scenario_run", "r")

    assert begun is not None
    assert rejected is not None
    assert (begun.has_ended, rejected.has_ended) == (False, True)
    assert "plan_cell" in rejected.problems


def made_run(**fields: Any) -> DagRun:
    """Return a row that needs no other table."""
    run = DagRun(**fields)
    run.log_template_id = 1
    return run
