"""One daemon of Spark's standalone cluster as a child process, and what its page says."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from lagbench.core.scenario.consumer_kinds import SparkFlags
from lagbench.core.scenario.scenario import ConsumerFlags
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.run_flags import RunFlags
from lagbench.shared_with_spark.spark_job import AUTHENTICATED, SECRET_VARIABLE
from localkube.processes import adopt_orphans, kill_descendants, tied_command
from pod_program.flags import CommandLine, Flag, PodName, Settings

_CLASSES = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker": "org.apache.spark.deploy.worker.Worker",
}

_HEAP = "160m"

# A daemon only keeps lists: the optimising compiler and a parallel collector cost more than it.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PAGE_SECONDS = 2.0
_LOOK_SECONDS = 0.1
_END_SECONDS = 5.0
log = logging.getLogger("lagbench.programs.spark_daemon")


class Daemon:
    """Spark's master or worker; it and all that it starts end with this process."""

    def __init__(self, settings: DaemonSettings, environment: Mapping[str, str]) -> None:
        """Start the JVM. No thread may run yet: it ends with the thread that starts it."""
        found = importlib.util.find_spec("pyspark")
        if found is None or found.origin is None:
            raise NotReady("PySpark is not installed: the pod needs the image of Spark")
        home = Path(found.origin).parent
        self._settings = settings
        here = Path.cwd()
        options = [*_jvm_options(settings), _JVM]
        process = subprocess.Popen(
            tied_command(
                [str(home / "bin" / "spark-class"), _CLASSES[settings.role], *_arguments(settings)],
                is_shared=True,
            ),
            stdin=subprocess.DEVNULL,
            env={
                **environment,
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": settings.bind_address,  # the page too: not on every interface
                "SPARK_DAEMON_MEMORY": _HEAP,
                "SPARK_DAEMON_JAVA_OPTS": " ".join(options),
                "SPARK_LOCAL_DIRS": str(here / "spark-local"),
                "SPARK_WORKER_DIR": str(here / "spark-work"),
                "PYSPARK_PYTHON": sys.executable,
            },
        )
        self._process = process

    @property
    def exit_code(self) -> int | None:
        """The daemon's exit code; None: it runs."""
        return self._process.poll()

    def is_ready(self) -> bool:
        """Return whether the daemon serves: a worker when it is registered with its master."""
        page = self._page()
        if page is None:
            return False
        return self._settings.role == "master" or bool(page.get("masterurl"))

    def end(self, *, decommissions: bool, within_seconds: float) -> bool:
        """Stop the daemon; return whether its executors had ended by themselves.

        With ``decommissions`` a worker's executors take no new tasks and end with the running ones.
        """
        are_done = not decommissions
        if decommissions:
            self._signal(signal.SIGPWR)
            are_done = self._await_executors(within_seconds)
        # A worker that ends still launches what the master asks for, and an executor that finds its
        # worker gone stays with its driver.
        adopt_orphans()
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._process.kill()
        self._process.wait()
        if not kill_descendants(within_seconds=_END_SECONDS):
            log.warning("not all processes of Spark's %s have ended", self._settings.role)
        return are_done

    def _await_executors(self, within_seconds: float) -> bool:
        give_up_at = time.monotonic() + within_seconds
        pause = threading.Event()
        while time.monotonic() < give_up_at and self._process.poll() is None:
            page = self._page()
            if page is not None and not page.get("executors"):
                return True
            pause.wait(_LOOK_SECONDS)  # the worker tells nobody
        return False

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _page(self) -> dict[str, Any] | None:
        """Return the state that the daemon's page shows; None: it does not answer."""
        settings = self._settings
        url = f"http://{settings.bind_address}:{settings.page_port}/json/"
        try:
            with urllib.request.urlopen(url, timeout=_PAGE_SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
        except (OSError, ValueError):
            return None
        return found


def _jvm_options(settings: DaemonSettings) -> list[str]:
    """Return the options; with them Spark reads the secret in its environment, or ends."""
    values = dict(AUTHENTICATED)
    # Its REST server and its pages take orders from everybody.
    values["spark.master.rest.enabled"] = values["spark.ui.killEnabled"] = "false"
    values["spark.master.ui.decommission.allow.mode"] = "DENY"
    if settings.role == "worker" and settings.decommission:
        values["spark.decommission.enabled"] = "true"
    return [f"-D{name}={value}" for name, value in values.items()]


def _arguments(settings: DaemonSettings) -> list[str]:
    arguments = ["--host", settings.bind_address, "--port", str(settings.rpc_port)]
    arguments += ["--webui-port", str(settings.page_port)]
    if settings.role == "master":
        return arguments
    arguments += ["--cores", str(settings.cores_per_worker)]
    # Exactly one executor has room.
    arguments += ["--memory", f"{settings.worker_memory_mebibytes}m"]
    return [*arguments, settings.master]


def java_of(environment: Mapping[str, str]) -> str:
    """Return the Java that Spark's launcher takes."""
    home = environment.get("JAVA_HOME", "")
    java = Path(home) / "bin" / "java"
    if not home or not os.access(java, os.X_OK):
        raise NotReady(f"JAVA_HOME ({home or 'not set'}) has no bin/java")
    return str(java)


_HIGHEST_PORT = 65_535


class DaemonSettings(ConsumerFlags, SparkFlags, RunFlags, Settings):
    """A daemon of lagbench's consumer under test on Spark."""

    role: Literal["master", "worker"] = Field(description="what the pod is")
    telemetry_topic: str = Field(
        description="topic of the telemetry; default: the run's, by --run-id"
    )
    master: Annotated[str, Flag(variables=("SPARK_STREAM_MASTER_URL",))] = Field(
        "", description="spark://HOST:PORT of the master, for a worker"
    )
    spark_version: Annotated[str, Flag(variables=("SPARK_STREAM_VERSION",))] = Field(
        "", description="version of Spark in every pod of the run; empty: not compared"
    )
    rpc_port: Annotated[int, Flag(variables=("PORT_RPC",))] = Field(
        0, ge=0, le=_HIGHEST_PORT, description="port of the daemon's RPC; 0 takes a free one"
    )
    page_port: Annotated[int, Flag(variables=("PORT_PAGE",))] = Field(
        ge=0, le=_HIGHEST_PORT, description="port of the daemon's own page, which has its state"
    )
    pod_name: PodName
    bind_address: Annotated[str, Flag(variables=("BIND_ADDRESS",), is_variable_only=True)] = Field(
        "127.0.0.1", description="the pod's own address"
    )


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> DaemonSettings:
    """Return the settings that ``arguments`` and the pod's environment state.

    :raises WrongInput: a flag is unknown, missing or out of range, or the pod has another Spark, or
        no secret.
    """
    line = CommandLine(DaemonSettings, module="lagbench.programs.spark_daemon")
    settings = line.read(arguments, environment)
    if settings.role == "worker" and not settings.master:
        raise line.missing("master")
    require_version(settings.spark_version, where="spark_daemon")
    secret_of(environment, where="spark_daemon")
    return settings


def secret_of(environment: Mapping[str, str], *, where: str) -> str:
    """Return the secret of the run's Spark."""
    secret = environment.get(SECRET_VARIABLE, "")
    if not secret:
        allowed = "a secret that all pods of the run share, from a Secret"
        raise WrongInput(where=where, field=SECRET_VARIABLE, value=secret, allowed=allowed)
    return secret


def require_version(wanted: str, *, where: str) -> None:
    """Reject a pod whose Spark differs from that of the run's other pods.

    Spark compares no versions: tasks would fail later, with errors of serialisation.
    """
    try:
        own = version("pyspark")
    except PackageNotFoundError:
        own = "none"
    if wanted and own != wanted:
        allowed = f"{wanted}, as in the other pods of the run: use one image for all of them"
        value = f"pyspark {own} in this pod"
        raise WrongInput(where=where, field="SPARK_STREAM_VERSION", value=value, allowed=allowed)
