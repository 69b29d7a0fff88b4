"""Write the verdict into the note of a Dag run: a listener, which Airflow's scheduler calls.

It must not stop the scheduler, so nothing that fails here is raised. Every process of Airflow
loads this file, so what it needs is imported at the end of a run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from lagbench_airflow.links import report_path

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun


log = logging.getLogger(__name__)

MARK = "**lagbench**"
"""Begins what is written here; what a person wrote before it stays."""
MOST_CHARACTERS = 1000
"""Airflow's limit of a note."""


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the hook's arguments
    """Note the verdict, or that there is none."""
    write_note(dag_run)


on_dag_run_failed = on_dag_run_success


def write_note(dag_run: DagRun) -> None:
    """Write the note of a run that has a run folder, or of a night; the caller commits."""
    from sqlalchemy.orm.exc import DetachedInstanceError

    try:
        lines = [
            f"{text} ([report]({address}))"
            for address, text in verdicts_of(dag_run.dag_id, dag_run.run_id, dag_run.conf)
        ]
        if not lines:
            return
        text = f"{MARK} {lines[0]}" if len(lines) == 1 else "\n- ".join([MARK, *lines])
        before = (dag_run.note or "").partition(MARK)[0].rstrip()
        room = MOST_CHARACTERS - len(before) - 2
        if len(text) > room:
            text = f"{text[: max(room - 1, 0)]}…"
        if room > len(MARK):
            dag_run.note = f"{before}\n\n{text}".lstrip()
    except DetachedInstanceError:  # of ``airflow dags test``, whose run is in no session by now
        log.debug("no note on the Dag run %s", dag_run.run_id)
    except Exception:
        log.exception("no note on the Dag run %s", dag_run.run_id)


def verdicts_of(
    dag_id: str, dag_run: str, conf: Mapping[str, Any] | None
) -> Iterator[tuple[str, str]]:
    """Yield the address of each run of a Dag run, oldest first, and its verdict with key figures.

    A night has a line for each of its cells, also for one without a run folder.
    """
    from lagbench.results.gate import told_verdict
    from lagbench_airflow.nights import verdicts_of_night
    from lagbench_airflow.run_lookup import NIGHTLY_DAG, folders_of_page

    if dag_id == NIGHTLY_DAG:
        yield from verdicts_of_night(dag_run, conf or {})
        return
    for folder in reversed(list(folders_of_page(dag_id, dag_run))):
        yield report_path(folder.run_id), told_verdict(folder)
