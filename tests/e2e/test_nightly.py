"""Setup: an empty home with ``lagbench ui``. A night, as Airflow's own programs run it.

1. Trigger the nightly Dag at the REST API, as a browser does. 2. Scheduler, executor and triggerer
take it through both Dags. 3. Read the history, the comparison, the page of the night.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import httpx
import psutil
import pytest

from lagbench.embedded.child_server import free_port
from tests.e2e.rehearsal import DATA, POLICY, RUN_LIMIT_SECONDS, SCENARIO, Rehearsal, wait_until

pytestmark = [pytest.mark.measured, pytest.mark.slow, pytest.mark.timeout(2700)]

NIGHT = "manual__a-night"
DAG = "daily_spike_rehearsal"
REHEARSAL = f"rehearsal__{NIGHT}"


@dataclass
class Airflow:
    """The REST API of the home's Airflow, logged in as its administrator."""

    client: httpx.Client

    def get(self, path: str) -> Any:
        """Return the JSON of an answer."""
        reply = self.client.get(path)
        reply.raise_for_status()
        return reply.json()

    def state(self, dag: str, dag_run: str) -> str:
        """Return the state of a Dag run."""
        return str(self.get(f"/api/v2/dags/{dag}/dagRuns/{dag_run}")["state"])

    def tasks(self, dag: str, dag_run: str) -> dict[str, dict[str, Any]]:
        """Return the task instances of a Dag run by their ids."""
        found = self.get(f"/api/v2/dags/{dag}/dagRuns/{dag_run}/taskInstances")
        return {task["task_id"]: task for task in found["task_instances"]}


@pytest.fixture(scope="module")
def airflow(rehearsal: Rehearsal) -> Any:
    """Provide ``lagbench ui`` after one night, and stop all of it at the end."""
    port = free_port()
    # A Dag that is unpaused within a tenth of a day after its hour runs for that hour first.
    rehearsal.variables["AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE"] = "False"
    rehearsal.variables["LAGBENCH_ALLOWED_FOLDERS"] = str(DATA)
    assert rehearsal.finish(rehearsal.start("ui", "--port", str(port))) == 0, rehearsal.output()
    found = re.search(r"user +(\S+)\npassword +(\S+)", rehearsal.output())
    assert found, rehearsal.output()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=180) as client:
        login = {"username": found[1], "password": found[2]}
        token = client.post("/auth/token", json=login).json()["access_token"]
        client.headers["Authorization"] = f"Bearer {token}"
        airflow = Airflow(client)
        client.patch(f"/api/v2/dags/{DAG}", json={"is_paused": False}).raise_for_status()
        conf = {"scenario": str(SCENARIO), "policy": str(POLICY)}
        night = {"dag_run_id": NIGHT, "conf": conf, "logical_date": None}
        client.post(f"/api/v2/dags/{DAG}/dagRuns", json=night).raise_for_status()
        wait_until(
            lambda: airflow.state(DAG, NIGHT) in ("success", "failed"),
            "the end of the night",
            limit_seconds=RUN_LIMIT_SECONDS,
        )
        yield airflow
    assert rehearsal.finish(rehearsal.start("down")) == 0, rehearsal.output()
    assert [process.cmdline() for process in rehearsal.processes()] == []


def test_the_night_succeeds_at_the_first_try(airflow: Airflow, rehearsal: Rehearsal) -> None:
    """Both Dags do: no task needed another try, whether it waited in the triggerer or not.

    The verdict is a pass, and the comparison pins it as the baseline.
    """
    nights, rehearsals = airflow.tasks(DAG, NIGHT), airflow.tasks("scenario_run", REHEARSAL)

    assert airflow.state(DAG, NIGHT) == "success", nights
    assert airflow.state("scenario_run", REHEARSAL) == "success", rehearsals
    assert set(nights) == {"list_cells", "rehearse", "compare_with_last_pass"}
    done = {name: task["state"] for name, task in (nights | rehearsals).items()}
    assert set(done.values()) <= {"success", "skipped"}, done
    assert max(task["try_number"] for task in (nights | rehearsals).values()) == 1
    comparison = rehearsal.read("comparison.json")
    assert rehearsal.read("verdict.json")["status"] == "pass"
    assert comparison["status"] == "baseline", comparison


def test_the_page_of_the_night_shows_its_rehearsal(airflow: Airflow, rehearsal: Rehearsal) -> None:
    """The address behind the Report tab leads to that run's report, for who is logged in."""
    page = f"/bench/report/{DAG}/{NIGHT}"

    shown = airflow.client.get(page, follow_redirects=True)
    stranger = httpx.get(f"{airflow.client.base_url}".rstrip("/") + page)

    assert shown.status_code == httpx.codes.OK
    assert shown.url.path == f"/bench/runs/{rehearsal.folder().name}/report.html"
    assert rehearsal.folder().name in shown.text
    assert stranger.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)


def test_the_history_is_the_audit_trail(airflow: Airflow) -> None:
    """The Dag run keeps with which conf it was asked for; the API server reads its tasks' logs."""
    path = f"/api/v2/dags/scenario_run/dagRuns/{REHEARSAL}"
    run = airflow.get(path)

    assert (run["conf"]["scenario"], run["conf"]["policy"]) == (str(SCENARIO), str(POLICY))
    assert run["run_type"] == "operator_triggered" or run["triggered_by"] == "operator", run
    for task in ("plan_cell", "lag_drained"):
        content = airflow.get(f"{path}/taskInstances/{task}/logs/1")["content"]
        assert any(line.get("logger") == "task" for line in content), content


def test_nothing_listens_for_other_machines(airflow: Airflow, rehearsal: Rehearsal) -> None:
    """Every socket of bench and Airflow is on loopback."""
    server = json.loads((rehearsal.root / "state" / "airflow.json").read_text())
    leaders = (server["pid"], rehearsal.bench()["supervisor"]["pid"])
    listening = [
        socket.laddr.ip
        for leader in leaders
        for process in psutil.Process(leader).children(recursive=True)
        for socket in process.net_connections("inet")
        if socket.status == psutil.CONN_LISTEN
    ]

    assert len(listening) >= len(("web UI", "broker", "localkube"))
    assert set(listening) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_the_scale_down_met_work(airflow: Airflow, rehearsal: Rehearsal) -> None:
    """The base load continued at 150/s until one pod was left, and ended because it was."""
    tail, measures = rehearsal.read("manifest.json")["tail"], rehearsal.read("measures.json")
    downs = [
        episode
        for episode in measures["rebalances"]["episodes"]
        if episode["trigger"] == "scale_down"
    ]

    assert measures["end_state"]["is_at_floor"]
    assert tail["ended_by"] == "settled"
    assert tail["sent"] == pytest.approx(150 * tail["seconds"], abs=15)
    assert downs
    for episode in downs:
        ended_at = tail["started_at"] + tail["seconds"] * 1e9
        assert tail["started_at"] < episode["started_at"] < ended_at - 10e9
    # Replicas settle before the base load stops; the fence is run on a drained, calm group.
    order = ["replicas_settled", "stop_tail", "lag_drained", "group_settled", "fence_run"]
    entries = map(json.loads, (rehearsal.folder() / "phases.jsonl").read_text().splitlines())
    ended = [entry["name"] for entry in entries if entry["state"] == "finished"]
    assert [name for name in ended if name in order] == order
