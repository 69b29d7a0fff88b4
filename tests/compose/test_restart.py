"""After a restart of the engine, or a crash of the bench, all of it finds together again."""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest

from tests.compose.engine.engine import wait_until
from tests.compose.rehearsal import DAG, Rehearsed
from tests.compose.stack import UP_LIMIT_SECONDS, Stack

pytestmark = pytest.mark.timeout(3600)
KUBECONFIG = "/opt/lagbench/.lagbench/localkube/kubeconfig"
BENCH = 'up{app="lagbench-autoscaler"}'
SCHEDULER = "airflow-scheduler"
SIGKILL = "9"


def test_a_restarted_engine_brings_all_of_it_back(stack: Stack) -> None:
    """After ``up`` Prometheus reaches the new bench, with the kubeconfig of the old one.

    Without ``up`` it is chance: the engine may start a service before the one whose network it
    shares, and then leaves it stopped.
    """
    kubeconfig = stack.run_in(SCHEDULER, "cat", KUBECONFIG)
    before = _started(stack, SCHEDULER)

    stack.engine.restart()
    stack.up()

    assert _started(stack, SCHEDULER) > before
    assert stack.run_in(SCHEDULER, "cat", KUBECONFIG) == kubeconfig
    await_new_bench_in_prometheus(stack)


def test_the_earlier_run_is_still_there(stack: Stack, rehearsed: Rehearsed) -> None:
    """Airflow's history and the run's folder outlast the engine's restart."""
    run = stack.airflow("GET", f"/api/v2/dags/{DAG}/dagRuns/{rehearsed.dag_run_id}").json()
    report = stack.airflow("GET", f"/bench/runs/{rehearsed.run_id}/report.html")

    assert run["state"] == "success"
    assert report.status_code == 200


def test_a_crash_of_the_bench_strands_nobody(stack: Stack) -> None:
    """After SIGKILL of the scheduler's container the same Prometheus reaches the next bench."""
    prometheus, before = _started(stack, "prometheus"), _started(stack, SCHEDULER)

    # By a signal from outside: what `docker kill` ends is not started again.
    stack.engine.kill_inside(int(_inspect(stack, SCHEDULER, "{{.State.Pid}}")))
    wait_until(
        lambda: _started(stack, SCHEDULER) > before,
        "the scheduler's next start",
        limit_seconds=UP_LIMIT_SECONDS,
    )
    stack.wait_for_health()

    await_new_bench_in_prometheus(stack)
    assert _started(stack, "prometheus") == prometheus


def test_a_restarted_network_takes_its_services_along(stack: Stack) -> None:
    """After ``restart bench-network`` those in it are in the new one; none had to be killed."""
    before, since = _started(stack, SCHEDULER), time.time()

    stack.compose("restart", "bench-network", limit_seconds=600)
    stack.wait_for_health()

    assert _started(stack, SCHEDULER) > before
    await_new_bench_in_prometheus(stack)
    last_signals = _signals_sent(stack, since)
    assert {"bench-network", SCHEDULER} <= set(last_signals)
    assert [name for name, last in last_signals.items() if last == SIGKILL] == []


def await_new_bench_in_prometheus(stack: Stack) -> None:
    """Wait until Prometheus has scraped what started with the scheduler's present container.

    For five minutes it answers with the last sample of a bench that is gone.
    """
    since = _started(stack, SCHEDULER).timestamp()
    wait_until(
        lambda: stack.ask_prometheus(f"{BENCH} == 1 and timestamp({BENCH}) > {since:.3f}"),
        "Prometheus reaches the new bench",
        limit_seconds=UP_LIMIT_SECONDS,
    )


def _started(stack: Stack, service: str) -> datetime:
    """Return when a service's container was started last."""
    return datetime.fromisoformat(_inspect(stack, service, "{{.State.StartedAt}}"))


def _inspect(stack: Stack, service: str, form: str) -> str:
    container = stack.compose("ps", "--all", "--quiet", service).strip()
    return stack.engine.docker("inspect", "--format", form, container).strip()


def _signals_sent(stack: Stack, since: float) -> dict[str, str]:
    """Return the last signal that the engine sent to each service that it stopped."""
    times = (f"--since={since:.3f}", f"--until={time.time():.3f}")
    events = stack.engine.docker(
        "events", *times, "--filter=event=kill", "--format={{json .Actor.Attributes}}"
    )
    found = [json.loads(line) for line in events.splitlines()]
    return {item["com.docker.compose.service"]: item["signal"] for item in found}
