"""A standalone Spark cluster on loopback: a master and two workers, from PySpark's own classes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyspark

from lagbench.embedded.child_server import free_port
from lagbench.embedded.spark_packages import submit_environment
from lagbench.shared_with_spark.spark_job import AUTHENTICATED, SECRET_VARIABLE
from localkube.ports import LOOPBACK
from localkube.processes import end_process, start_tied

WORKERS = 2
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
# Seen 4 s on idle cores for all three.
_START_LIMIT_SECONDS = 300
_OPTIONS = [f"-D{name}={value}" for name, value in AUTHENTICATED.items()]
_OPTIONS += ["-Dspark.master.rest.enabled=false", "-XX:TieredStopAtLevel=1"]
_SMALL_JVM = {"SPARK_DAEMON_MEMORY": "192m", "SPARK_DAEMON_JAVA_OPTS": " ".join(_OPTIONS)}


@dataclass(frozen=True)
class Standalone:
    """A cluster: the master's URL for drivers, and its page."""

    master: str
    page: str

    def state(self) -> dict[str, Any]:
        """Return what the master says of workers, ``activeapps`` and ``completedapps``."""
        found: dict[str, Any] = httpx.get(self.page, timeout=10).json()
        return found


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[Standalone]:
    """Yield the cluster when both workers have registered; end all three processes afterwards.

    They take the driver that has the secret of this process's environment.
    """
    port = free_port()
    page = free_port(besides={port})
    address = ["--host", LOOPBACK]
    master = f"spark://{LOOPBACK}:{port}"
    worker = ["org.apache.spark.deploy.worker.Worker", *address, "--webui-port", "0"]
    # The least that an executor may have is 450 MB.
    worker += ["--cores", "1", "--memory", "600m", "--work-dir", str(folder / "work"), master]
    with contextlib.ExitStack() as ended:
        page_option = ["--webui-port", str(page)]
        commands = [["org.apache.spark.deploy.master.Master", *address, "--port", str(port)]]
        commands[0] += page_option
        commands += [worker] * WORKERS
        running = [
            ended.enter_context(_daemon(command, folder / f"daemon-{number}.log"))
            for number, command in enumerate(commands)
        ]
        cluster = Standalone(master, f"http://{LOOPBACK}:{page}/json/")
        _await_workers(cluster, running, folder)
        yield cluster


def strange_python(folder: Path) -> Path:
    """Return a Python with the libraries but without this project, as on a worker elsewhere."""
    path = folder / "python-of-a-worker"
    libraries = sysconfig.get_path("purelib")
    # Without site no .pth is read, and the editable installation of lagbench is one.
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n'
    )
    path.chmod(0o755)
    return path


@contextlib.contextmanager
def _daemon(command: list[str], log_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    # A machine of a cluster knows nothing of this project's environment.
    names = ("PATH", "HOME", SECRET_VARIABLE)
    kept = {name: os.environ[name] for name in names if name in os.environ}
    environment = {**kept, **_SMALL_JVM, "JAVA_HOME": submit_environment()["JAVA_HOME"]}
    with log_path.open("wb") as log:
        process = start_tied(
            [str(_SPARK_CLASS), *command], log=log, env=environment, cwd=log_path.parent
        )
        try:
            yield process
        finally:
            end_process(process.pid, grace_seconds=5)


def _await_workers(
    cluster: Standalone, running: list[subprocess.Popen[bytes]], folder: Path
) -> None:
    give_up_at = time.monotonic() + _START_LIMIT_SECONDS
    alive = 0
    while time.monotonic() < give_up_at:
        with contextlib.suppress(httpx.HTTPError, ValueError):
            alive = int(cluster.state()["aliveworkers"])
        if alive == WORKERS:
            return
        if any(process.poll() is not None for process in running):
            break
        time.sleep(0.1)  # the master tells nobody
    logs = "".join(path.read_text()[-1500:] for path in sorted(folder.glob("daemon-*.log")))
    raise AssertionError(f"{alive} of {WORKERS} workers after {_START_LIMIT_SECONDS} s:\n{logs}")
