"""The approval before a run against a cluster, by a real scheduler, answered over Airflow's API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.integration.guarded_deployment import Airflow, connections_to, running_airflow
from tests.integration.localkube_process import running_localkube

from lagbench.embedded.child_server import free_port
from lagbench.orchestrator.airflow_server import log_file
from lagbench.orchestrator.opened_clusters import clean_up_failures

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

DAG = "scenario_run"
Phases = list[tuple[str, str, str]]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """Provide an Airflow whose target is a cluster, with a Kafka that nobody reaches."""
    folder = tmp_path_factory.mktemp("approval")
    with (
        running_localkube(folder / "cluster") as cluster,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("LAGBENCH_RUNS_DIR", str(folder / "runs"))
        connections = connections_to(f"127.0.0.1:{free_port()}", cluster.kubeconfig)
        connections["AIRFLOW_CONN_SPARK_DEFAULT"] = '{"conn_type": "spark", "host": "local[2]"}'
        with running_airflow(connections, folder) as airflow:
            yield airflow


def answered(airflow: Airflow, answer: str) -> str:
    """Start a run and answer when it asks; return its id.

    Airflow 3.3.2 fails a task that is answered before the scheduler has read that its first part
    ended (apache/airflow#66374 is the same for deferred tasks): a person is slower than that.
    """
    run = airflow.start({"scenario": "hello"}, DAG)
    parts = ("executor event with state success", "task_id='approve'", run)

    def has_asked() -> bool:
        lines = log_file(airflow.state_dir).read_text().splitlines()
        return any(all(part in line for part in parts) for line in lines)

    eventually(has_asked, "a question")
    query = "SELECT task_id FROM task_instance WHERE run_id = ? AND state = 'awaiting_input'"
    assert airflow.select(query, run) == [("approve",)]
    assert phases(airflow, run) == [("approve", "started", "")]
    place = f"{DAG}/dagRuns/{run}/taskInstances/approve/-1/hitlDetails"
    airflow.ask("PATCH", place, {"chosen_options": [answer]})
    return run


def folder_of(airflow: Airflow, run: str) -> Path:
    """Return the run folder."""
    found: str = airflow.result(run, "plan_cell")["run_id"]
    return airflow.state_dir.parent / "runs" / found


def phases(airflow: Airflow, run: str) -> Phases:
    """Return name, state and detail of the phases in the run folder."""
    lines = map(json.loads, (folder_of(airflow, run) / "phases.jsonl").read_text().splitlines())
    return [(line["name"], line["state"], line["detail"]) for line in lines]


def test_a_rejected_run_starts_nothing(airflow: Airflow) -> None:
    """It fails, and its folder says who has rejected it; there is nothing to clean up."""
    run = answered(airflow, "Reject")

    assert airflow.await_end(run)[0] == "failed"
    assert phases(airflow, run)[1:] == [("approve", "failed", "rejected by admin")]
    assert clean_up_failures(folder_of(airflow, run)) == []
    started = "SELECT task_id FROM task_instance WHERE run_id = ? AND try_number > 0"
    assert {task for (task,) in airflow.select(started, run)} == {
        *("plan_cell", "approve", "require_verdict")
    }


def test_an_approved_run_goes_on(airflow: Airflow) -> None:
    """The next task begins; the target then refuses it."""
    run = answered(airflow, "Approve")

    ended = eventually(lambda: phases(airflow, run)[3:], "the end of the next task")
    assert ended[0][:2] == ("bench_up", "failed")  # there is no KEDA
    assert phases(airflow, run)[1:3] == [
        ("approve", "finished", "approved by admin"),
        ("bench_up", "started", ""),
    ]
