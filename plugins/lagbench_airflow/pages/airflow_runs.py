"""Read from Airflow's database how far a Dag run is, and why it ended; for the API server alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from lagbench_airflow.run_lookup import CELL_MARK, REHEARSAL_PREFIX, RETRY_MARK, SCENARIO_DAG
from lagbench_airflow.task_life import REFUSED

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
PLAN_TASK = "plan_cell"
_SAY_NOTHING_NEW = ("slo_gate", "require_verdict", "rehearse")
"""Tasks that fail because another one has."""


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """A Dag run as Airflow knows it."""

    has_ended: bool  # or will, as its input was rejected
    is_planned: bool
    """Its task ``plan_cell`` has succeeded, since the run was last cleared."""
    problems: Mapping[str, str]
    """Why a task failed, by its name; empty: none did."""


class NightCell(NamedTuple):
    """A Dag run of ``scenario_run`` that a night has triggered."""

    dag_run: str
    state: str
    conf: Mapping[str, Any]


def airflow_run(dag_id: str, dag_run: str) -> AirflowRun | None:
    """Return the Dag run.

    None: Airflow has no such run, or its database no answer; the run folder is then all there is.
    """
    return _answer(lambda session: _found(session, dag_id, dag_run), None)


def rehearsals(night: str) -> list[NightCell]:
    """Return what a night has triggered, oldest first; []: nothing yet, or no answer."""
    first = f"{REHEARSAL_PREFIX}{night}"
    begins = [f"{first}{mark}" for mark in (RETRY_MARK, CELL_MARK)]
    others = [DagRun.run_id.startswith(one, autoescape=True) for one in begins]
    named = (DagRun.dag_id == SCENARIO_DAG, or_(DagRun.run_id == first, *others))
    query = select(DagRun.run_id, DagRun.state, DagRun.conf).where(*named).order_by(DagRun.id)
    found: Sequence[Any] = _answer(lambda session: session.execute(query).all(), ())
    return [NightCell(run, str(state), conf or {}) for run, state, conf in found]


def started_by(dag_runs: Sequence[str]) -> dict[str, str]:
    """Return who or what started each run of ``scenario_run``: a user, or a kind; {}: no answer."""
    columns = (DagRun.run_id, DagRun.triggering_user_name, DagRun.run_type)
    named = (DagRun.dag_id == SCENARIO_DAG, DagRun.run_id.in_(dag_runs))
    found: Sequence[Any] = _answer(
        lambda session: session.execute(select(*columns).where(*named)).all(), ()
    )
    return {run: user or str(kind).replace("_", " ") for run, user, kind in found}


def _answer(ask: Callable[[Session], Answer], without: Answer) -> Answer:
    """Return what Airflow's database answers; without an answer, ``without``."""
    try:
        with create_session() as session:
            return ask(session)
    except SQLAlchemyError as error:
        log.warning("no answer from Airflow's database: %s", type(error).__name__)
        return without


def _found(session: Session, dag_id: str, dag_run: str) -> AirflowRun | None:
    run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == dag_run))
    if run is None:
        return None
    of_run = (TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
    tasks = session.scalars(select(TaskInstance).where(*of_run)).all()
    refusal = (XComModel.task_id == PLAN_TASK, XComModel.key == REFUSED)
    told = select(XComModel.value).where(XComModel.dag_run_id == run.id, *refusal)
    problems = _problems(tasks, session.scalar(told))
    return AirflowRun(
        has_ended=run.state in ("success", "failed") or PLAN_TASK in problems,
        is_planned=PLAN_TASK in {t.task_id for t in tasks if t.state == TaskInstanceState.SUCCESS},
        problems=problems,
    )


def _problems(tasks: Sequence[TaskInstance], told: object) -> dict[str, str]:
    problems = {}
    for task in tasks:
        if task.state != TaskInstanceState.FAILED or task.task_id in _SAY_NOTHING_NEW:
            continue
        problems[task.task_id] = "its log says why"
        if task.start_date is None:
            problems[task.task_id] = "it never started: it waited too long in Airflow's queue"
        if task.task_id == PLAN_TASK and told is not None:
            problems[task.task_id] = str(told)
    return problems
