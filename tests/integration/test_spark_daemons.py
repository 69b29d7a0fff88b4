"""Spark's daemons as pods of localkube: no JVM survives them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.integration.localkube_process import LocalkubeProcess, eventually, running_localkube

from lagbench.embedded.spark_packages import submit_environment

pytestmark = pytest.mark.integration


@pytest.fixture
def localkube(tmp_path: Path) -> Iterator[LocalkubeProcess]:
    """Provide a running localkube of its own."""
    with running_localkube(tmp_path / "state") as running:
        yield running


def _start(localkube: LocalkubeProcess, name: str, role: str) -> None:
    variables = {
        **submit_environment(),
        "POD_NAME": name,
        "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "SPARK_STREAM_MASTER_URL": "spark://127.0.0.1:1",
    }
    container: dict[str, Any] = {
        "name": "main",
        "image": "none",
        "command": ["python", "-m", "lagbench.programs.spark_daemon"],
        "args": [f"--role={role}", "--run-id=jvms"],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "ports": [{"name": "metrics", "containerPort": 1}, {"name": "page", "containerPort": 2}],
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    pods = localkube.client().resources.get(api_version="v1", kind="Pod")
    pods.create(body={"metadata": {"name": name}, "spec": spec}, namespace="default")


def _jvms(name: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            is_of_pod = process.environ().get("POD_NAME") == name
            is_alive = process.status() != psutil.STATUS_ZOMBIE
            if is_of_pod and is_alive and process.name() == "java":
                found.append(process.pid)
    return found


@pytest.mark.parametrize("role", ["master", "worker"])
def test_no_jvm_survives_a_kill_of_localkube(role: str, localkube: LocalkubeProcess) -> None:
    """The JVM is in the group of its pod, and dies with the program that started it."""
    name = f"jvm-{os.getpid()}-{role}"
    _start(localkube, name, role)
    eventually(lambda: bool(_jvms(name)), "the JVM")

    localkube.process.send_signal(signal.SIGKILL)

    eventually(lambda: not _jvms(name), "the end of the JVM")
