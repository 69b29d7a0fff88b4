"""``docker compose up -d --build --wait`` with the committed files: all starts and is well."""

from __future__ import annotations

import pytest

from tests.compose.engine.engine import wait_until
from tests.compose.stack import THAT_STAY, UNCHECKED, Stack

pytestmark = pytest.mark.timeout(7200)
SCRAPE_LIMIT_SECONDS = 120
"""Of which it takes 2 s, if the answers come in time."""


def test_every_service_is_healthy(stack: Stack) -> None:
    """All services that stay have passed their check; the one without a check runs."""
    services = stack.services()

    assert services.pop(UNCHECKED) == "running"
    assert services == dict.fromkeys(THAT_STAY - {UNCHECKED}, "healthy")


def test_airflow_has_read_the_dags_without_an_error(stack: Stack) -> None:
    """Its list of import errors is empty, and the plugin with the report's tab is there."""
    errors = stack.airflow("GET", "/api/v2/importErrors").json()
    plugins = stack.airflow("GET", "/api/v2/plugins").json()["plugins"]

    assert errors["import_errors"] == []
    assert "lagbench" in {plugin["name"] for plugin in plugins}


def test_prometheus_reaches_the_bench(stack: Stack) -> None:
    """It finds the autoscaler's pod through localkube, one of it, and can scrape it."""
    wait_until(
        lambda: stack.ask_prometheus('up{app="lagbench-autoscaler"} == 1'),
        "Prometheus reaches the bench",
        limit_seconds=SCRAPE_LIMIT_SECONDS,
    )

    assert len(stack.ask_prometheus('up{app="lagbench-autoscaler"}')) == 1


def test_every_service_is_confined(stack: Stack) -> None:
    """No root can be written, no process has or gains a right."""
    for service in THAT_STAY:
        mounts = stack.run_in(service, "cat", "/proc/mounts").splitlines()
        (root,) = (line.split()[3].split(",") for line in mounts if line.split()[1] == "/")
        status = stack.run_in(service, "cat", "/proc/self/status").splitlines()
        found = dict(line.split(":", 1) for line in status)

        assert "ro" in root, service
        assert int(found["CapBnd"], 16) == 0, service
        assert int(found["NoNewPrivs"]) == 1, service
