"""Links from Airflow's pages to a run's report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

URL_PREFIX = "/bench"
"""The path at which the pages of the bench are mounted in Airflow's API server."""


def public_prefix() -> str:
    """Return the path of the bench's pages as a browser requests them.

    It begins with the path of ``[api] base_url``, under which a proxy may publish Airflow.
    """
    base_path = urlsplit(conf.get("api", "base_url", fallback="") or "").path
    return f"{base_path.rstrip('/')}{URL_PREFIX}"


def report_path(run_id: str) -> str:
    """Return the path of a run's report as a browser requests it."""
    return f"{public_prefix()}/runs/{run_id}/report.html"


def tab_path(dag_id: str, dag_run: str) -> str:
    """Return the path of what the tab Report of a Dag run shows."""
    return f"{public_prefix()}/report/{dag_id}/{quote(dag_run)}"


class ReportLink(BaseOperatorLink):
    """Opens the report of the run that the task judged."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Return the report's address, empty before the task has run."""
        found: Any = XCom.get_value(ti_key=ti_key, key="return_value")
        run_id = found.get("run_id") if isinstance(found, dict) else None
        return report_path(run_id) if run_id else ""
