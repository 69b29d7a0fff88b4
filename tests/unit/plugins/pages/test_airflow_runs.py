"""What the pages read of Airflow's database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench_airflow.pages import airflow_runs

from airflow.models.dagrun import DagRun  # isort: skip
from airflow.utils.types import DagRunType  # isort: skip
from sqlalchemy import create_engine  # isort: skip
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


def made_run(**fields: Any) -> DagRun:
    """Return a row that needs no other table."""
    run = DagRun(**fields)
    run.log_template_id = 1
    return run
