"""Start the program that follows the run for its live page."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lagbench.adapters.process.processes import start_detached
from lagbench.core.cluster.lease import longest_run_seconds
from lagbench.programs.live.settings import LONGEST_SECONDS
from lagbench_airflow.airflow_process import airflow_pid
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class FollowRunOperator(CellOperator):
    """Start the follower, which writes ``live.jsonl`` of the run folder during the run.

    It runs beside Airflow, which owns the run folder, on a cluster too. It ends with the run or
    with this Airflow. After success: it was started. No measure needs it, so a start that fails is
    logged and the run continues without a live page. Safe to retry: a second follower ends at once.
    """

    is_of_run = True

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Start the program with the servers that Airflow itself uses."""
        command = [sys.executable, "-m", "lagbench.programs.live"]
        command += ["--run-folder", str(cell.folder.path.absolute())]
        command += ["--bootstrap-servers", self.bootstrap_servers()]
        command += ["--owner-pid", str(airflow_pid())]
        longest = min(longest_run_seconds(cell.scenario), LONGEST_SECONDS)
        command += ["--longest-seconds", str(longest)]
        log = cell.folder.logs / "live.log"
        try:
            with log.open("ab") as output:
                pid = start_detached(command, log=output)
        except OSError as error:
            self.log.warning("the run continues without a live page: %s", error)
            return {"follower": None}
        return {"follower": pid}
