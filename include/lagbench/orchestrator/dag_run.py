"""Start one Dag run of ``scenario_run`` from outside Airflow.

Without a running Airflow server the Dag runs in its own process (``airflow dags test``: the same
tasks, operators and database, one task at a time). With a server, the run is triggered there, so
that it appears in the same history as the runs that are started from the UI.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from lagbench.errors import NotReady, StillRunning
from lagbench.orchestrator.airflow_environment import DagProcess, airflow_home, fail_abandoned_runs
from lagbench.orchestrator.airflow_server import (
    AirflowServer,
    api_token,
    failed_parts,
    told_failure,
)
from lagbench.project import PROJECT_ROOT

DAG_ID = "scenario_run"
CANCEL_GRACE_SECONDS = 5
"""For the end of the task. At SIGTERM the task ends, and Airflow's runner continues the run, so the
process seldom ends before this time, which the user waits after Ctrl-C."""

_LAST_TASK_BEGINS = "[DAG TEST] starting task_id=require_verdict "
"""It fails whenever an earlier task has prevented the verdict, and does not know why."""

ASK_SECONDS = 1.0
HEALTH_SECONDS = 10.0
SILENCE_SECONDS = 120.0
"""A server that computes, or starts again, is silent for longer than one request waits."""


class ProcessDagRun:
    """The Dag in one child process; it ends with this process."""

    def __init__(
        self,
        state_dir: Path,
        connections: Mapping[str, str],
        conf: Mapping[str, Any],
        process: DagProcess | None = None,
    ) -> None:
        """Take what the Dag gets; its output goes to a log next to Airflow's.

        :param process: has imported Airflow already; None: one is started with the run.
        """
        self._state_dir, self._connections, self._conf = state_dir, connections, conf
        self.log_path = airflow_home(state_dir) / "logs" / f"{conf['run_id']}.log"
        self._process = process

    def start(self) -> None:
        """Start the Dag run."""
        if self._process is None:
            self._process = DagProcess(self._state_dir)
        dag_file = str(PROJECT_ROOT / "dags" / f"{DAG_ID}.py")  # the other Dags are not parsed
        self._process.run(
            *("dags", "test", DAG_ID, "--dagfile-path", dag_file, "--conf", json.dumps(self._conf)),
            connections=self._connections,
            log_path=self.log_path,
        )

    def is_finished(self) -> bool:
        """Return whether the process has ended."""
        return self._process is None or self._process.has_ended()

    def cancel(self) -> None:
        """Stop the process and its group; the history shows failed, not running forever."""
        if self._process is not None:
            self._process.end(grace_seconds=CANCEL_GRACE_SECONDS)
            fail_abandoned_runs(self._state_dir)

    def log_tail(self, lines: int) -> str:
        """Return the last lines of the process's output, without those of the last task."""
        output = self.log_path.read_text(errors="replace").splitlines()
        end = next((n for n, line in enumerate(output) if _LAST_TASK_BEGINS in line), len(output))
        return "\n".join(output[:end][-lines:])

    def where_to_look(self) -> str:
        """Return the log's path."""
        return f"whole log: {self.log_path}"


def triggered_id(run_id: str) -> str:
    """Return the id of a run's Dag run in a server."""
    return f"cli__{run_id}"


class _NoAnswer(NotReady):
    """Airflow did not answer; it may the next time."""


class ServerDagRun:
    """A run triggered in a running Airflow by its REST API.

    The run continues whether or not Airflow answers here, so a silence is waited out.
    """

    def __init__(self, server: AirflowServer, state_dir: Path, conf: Mapping[str, Any]) -> None:
        """Take the server and what the Dag gets."""
        self._server, self._state_dir = server, state_dir
        self._run, self._conf = triggered_id(str(conf["run_id"])), dict(conf)
        self._token, self._is_known = "", False
        self._asked_at = self._answered_at = 0.0
        self._health_asked_at = self._healthy_at = 0.0
        self._trigger_text = ""

    def start(self) -> None:
        """Trigger the run.

        A trigger without an answer may have arrived: ``is_finished`` finds out.
        """
        self._asked_at = self._answered_at = time.monotonic()
        self._health_asked_at = self._healthy_at = self._asked_at
        body = {"dag_run_id": self._run, "logical_date": None, "conf": self._conf}
        try:
            self._call("POST", f"dags/{DAG_ID}/dagRuns", json=body)
        except _NoAnswer as silence:
            self._trigger_text = f"{silence}; "

    def is_finished(self) -> bool:
        """Return whether Airflow reports the run as ended; it is asked once a second."""
        now = time.monotonic()
        if now - self._asked_at < ASK_SECONDS:
            return False
        self._asked_at = now
        try:
            run = self._call("GET", f"dags/{DAG_ID}/dagRuns/{self._run}")
        except _NoAnswer as silence:
            if time.monotonic() - self._answered_at > SILENCE_SECONDS:
                told = (
                    f"{self._trigger_text}{silence}; the run may continue: {self.where_to_look()}"
                )
                raise StillRunning(told) from silence
            return False
        self._answered_at = time.monotonic()
        if run["state"] in ("success", "failed"):
            return True
        self._require_health()
        return False

    def _require_health(self) -> None:
        """Give up a run that no scheduler or triggerer takes on."""
        now = time.monotonic()
        if now - self._health_asked_at < HEALTH_SECONDS:
            return
        self._health_asked_at = now
        failed = failed_parts(self._server)
        if not failed:
            self._healthy_at = now
        elif now - self._healthy_at > SILENCE_SECONDS:
            told = told_failure(failed, self._state_dir)
            raise StillRunning(f"{told}. The run may continue: {self.where_to_look()}")

    def cancel(self) -> None:
        """Mark the run failed: Airflow ends its tasks and runs the teardown."""
        self._call("PATCH", f"dags/{DAG_ID}/dagRuns/{self._run}", json={"state": "failed"})

    def log_tail(self, lines: int) -> str:
        """Return which tasks failed and where their logs are."""
        found = self._call("GET", f"dags/{DAG_ID}/dagRuns/{self._run}/taskInstances")
        failed = [t["task_id"] for t in found["task_instances"] if t["state"] == "failed"]
        return f"failed tasks: {', '.join(failed[:lines]) or 'none'}"

    def where_to_look(self) -> str:
        """Return the run's page."""
        return f"logs: {self._server.url}/dags/{DAG_ID}/runs/{self._run}"

    def _call(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        try:
            reply = self._request(method, path, **arguments)
            if reply.status_code == httpx.codes.UNAUTHORIZED:  # the token has expired
                self._token = ""
                reply = self._request(method, path, **arguments)
            reply.raise_for_status()
        except httpx.HTTPStatusError as error:
            is_unknown = method == "GET" and error.response.status_code == httpx.codes.NOT_FOUND
            is_open = error.response.is_server_error or (is_unknown and not self._is_known)
            problem = _NoAnswer if is_open else NotReady
            raise problem(f"Airflow rejected {method} {path}: {error.response.text}") from error
        except httpx.HTTPError as error:
            raise _NoAnswer(f"Airflow at {self._server.url} does not answer: {error}") from error
        self._is_known = True
        found: dict[str, Any] = reply.json()
        return found

    def _request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        self._token = self._token or api_token(self._server, self._state_dir)
        return httpx.request(
            method,
            f"{self._server.url}/api/v2/{path}",
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=30,
            **arguments,
        )


DagRun = ProcessDagRun | ServerDagRun
"""A run that can be started once."""
