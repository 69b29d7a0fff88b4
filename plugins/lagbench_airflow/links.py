"""Links from Airflow's pages to a run's report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

URL_PREFIX = "/bench"


class ReportLink(BaseOperatorLink):
    """Opens the report of the run that the task judged."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Return the report's address, empty before the task has run."""
        found: Any = XCom.get_value(ti_key=ti_key, key="return_value")
        run_id = found.get("run_id") if isinstance(found, dict) else None
        return f"{URL_PREFIX}/runs/{run_id}/report.html" if run_id else ""
