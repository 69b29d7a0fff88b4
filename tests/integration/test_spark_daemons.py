"""Spark's daemons as pods of localkube: no JVM survives them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.eventually import eventually
from tests.integration.localkube_process import LocalkubeProcess, running_localkube

from lagbench.embedded.spark_packages import submit_environment
from localkube.processes import signal_group, start_tied

pytestmark = pytest.mark.slow


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
        "_SPARK_AUTH_SECRET": "of-the-test",
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


def _processes(pod: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            is_alive = process.status() != psutil.STATUS_ZOMBIE
            if is_alive and process.environ().get("POD_NAME") == pod:
                found.append(process)
    return found


def _jvms(pod: str) -> list[int]:
    found = []
    for process in _processes(pod):
        with contextlib.suppress(psutil.Error):
            if process.name() == "java":
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


# In place of Java: asked for the command it names itself, asked to end it starts a process.
_STARTS_AT_ITS_END = """#!/bin/sh
case "$*" in *launcher.Main*) printf '\\0\\n%s\\0%s\\0' "$0" daemon; exit 0;; esac
trap 'sleep 600 & exit 143' TERM
echo running
while :; do sleep 0.1; done
"""


def test_what_a_daemon_starts_while_it_ends_does_not_survive_it(tmp_path: Path) -> None:
    """A worker launches an executor if the master asks for one between SIGTERM and its end."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_STARTS_AT_ITS_END)
    java.chmod(0o700)
    name = f"late-{os.getpid()}"
    variables = {
        "POD_NAME": name,
        "JAVA_HOME": str(tmp_path),
        "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "_SPARK_AUTH_SECRET": "of-the-test",
    }
    log = tmp_path / "log"
    command = [
        sys.executable,
        "-m",
        "lagbench.programs.spark_daemon",
        "--role=master",
        "--run-id=late",
    ]
    with log.open("wb") as output:
        pod = start_tied(
            command,
            log=output,
            env={**os.environ, **variables, "PORT_METRICS": "0", "PORT_PAGE": "1"},
            cwd=tmp_path,
        )
    try:
        eventually(lambda: b"running" in log.read_bytes(), "the daemon")
        pod.send_signal(signal.SIGTERM)
        assert pod.wait(60) == 0, log.read_text()
        assert _processes(name) == []
    finally:
        signal_group(pod.pid, signal.SIGKILL)
        pod.wait()
