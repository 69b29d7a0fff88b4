"""One rehearsal through Airflow's REST API in the containers of compose."""

from __future__ import annotations

import pytest

from tests.compose.rehearsal import DAG, Rehearsed
from tests.compose.stack import Stack

pytestmark = pytest.mark.timeout(3600)
PLANNED = 8 * 150 + 20 * 1500 + 4 * 150


def test_the_dag_run_succeeds(rehearsed: Rehearsed) -> None:
    """No task of it has failed."""
    assert rehearsed.state == "success"
    assert set(rehearsed.tasks.values()) <= {"success", "skipped"}


def test_every_message_is_accounted_for(rehearsed: Rehearsed) -> None:
    """Spark in the container finds each planned message once."""
    accounting = rehearsed.accounting
    counts = {accounting[name] for name in ("planned", "in_log", "processed_distinct")}

    assert counts == {PLANNED + rehearsed.tail_messages}
    assert accounting["lost"] == accounting["duplicated"] == accounting["reordered"] == 0


def test_prometheus_sees_the_pods_during_the_run(rehearsed: Rehearsed) -> None:
    """It has scraped the recorder and several consumers, while the run was in progress."""
    assert {"consumer", "recorder"} <= rehearsed.scraped
    assert rehearsed.consumers > 1


def test_the_report_opens_through_airflow(stack: Stack, rehearsed: Rehearsed) -> None:
    """The Dag run's tab leads to the report of its run, and only after a log-in."""
    tab = f"/bench/report/{DAG}/{rehearsed.dag_run_id}"
    report = f"/bench/runs/{rehearsed.run_id}/report.html"

    redirected, page = stack.airflow("GET", tab), stack.airflow("GET", report)

    assert redirected.headers["location"] == report
    assert page.status_code == 200
    assert rehearsed.run_id in page.text
    assert stack.airflow_as_nobody(report).status_code == 401
