"""After a restart of the engine, or a crash of the bench, all of it finds together again."""

from __future__ import annotations

import pytest

from tests.compose.engine.engine import wait_until
from tests.compose.rehearsal import DAG, Rehearsed
from tests.compose.stack import UP_LIMIT_SECONDS, Stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]
KUBECONFIG = "/opt/lagbench/.lagbench/localkube/kubeconfig"
REACHED = 'up{app="lagbench-autoscaler"} == 1'


def test_a_restarted_engine_brings_all_of_it_back(stack: Stack, rehearsed: Rehearsed) -> None:
    """After ``up`` Prometheus reaches the new bench, with the kubeconfig of the old one.

    Without ``up`` it is chance: the engine may start a service before the one whose network it
    shares.
    """
    kubeconfig = stack.run_in("airflow-scheduler", "cat", KUBECONFIG)

    stack.engine.restart()
    stack.up()

    assert stack.run_in("airflow-scheduler", "cat", KUBECONFIG) == kubeconfig
    await_bench_in_prometheus(stack)


def test_the_earlier_run_is_still_there(stack: Stack, rehearsed: Rehearsed) -> None:
    """Airflow's history and the run's folder outlast the engine's restart."""
    run = stack.airflow("GET", f"/api/v2/dags/{DAG}/dagRuns/{rehearsed.dag_run_id}").json()
    report = stack.airflow("GET", f"/bench/runs/{rehearsed.run_id}/report.html")

    assert run["state"] == "success"
    assert report.status_code == 200


def test_a_crash_of_the_bench_strands_nobody(stack: Stack) -> None:
    """After SIGKILL of the scheduler's container the same Prometheus reaches the next bench."""
    started = _started(stack, "prometheus")
    scheduler = stack.compose("ps", "--quiet", "airflow-scheduler").strip()

    before = _started(stack, "airflow-scheduler")
    pid = stack.engine.docker("inspect", "--format", "{{.State.Pid}}", scheduler).strip()
    stack.engine.kill_inside(int(pid))
    wait_until(
        lambda: _started(stack, "airflow-scheduler") != before,
        "the scheduler's next start",
        limit_seconds=UP_LIMIT_SECONDS,
    )
    await_bench_in_prometheus(stack)

    stack.wait_for_health()
    assert _started(stack, "prometheus") == started


def await_bench_in_prometheus(stack: Stack) -> None:
    """Wait until Prometheus scrapes the bench; a health check may still show an older state."""
    wait_until(
        lambda: stack.ask_prometheus(REACHED),
        "Prometheus reaches the bench",
        limit_seconds=UP_LIMIT_SECONDS,
    )


def _started(stack: Stack, service: str) -> str:
    """Return when a service's container was started."""
    container = stack.compose("ps", "--all", "--quiet", service).strip()
    return stack.engine.docker("inspect", "--format", "{{.State.StartedAt}}", container)
