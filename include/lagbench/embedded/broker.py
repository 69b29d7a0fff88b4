"""Run a real Apache Kafka broker (KRaft, one node) as a child process, by default on loopback."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.process.processes import end_process, start_tied
from lagbench.embedded.broker_settings import (
    JVM_OPTIONS,
    BrokerLayout,
    ProxiedListener,
    logging_properties,
    server_properties,
)
from lagbench.embedded.child_server import ChildServer
from lagbench.embedded.jars import BROKER, jar_paths
from lagbench.embedded.java import JavaRuntime, find_java
from lagbench.embedded.ports import LOOPBACK, accepts_connections, free_port, require_free
from lagbench.errors import NotReady, WrongInput
from lagbench.project import STATE_VARIABLE

# 20 M events of 256 B took 2.8 GB; the minimum is for the smallest scenario with its folder.
NEEDED_DISK_BYTES = 2 * 1024**3
# Measured: 2.6 s warm on two idle cores, 6 s cold, above 90 s at a load of 30.
_START_TIMEOUT_SECONDS = 240.0
_FORMAT_TIMEOUT_SECONDS = 240.0

FreeBytes = Callable[[Path], int]


def free_disk_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of ``folder`` or of its nearest existing parent."""
    return shutil.disk_usage(_existing(folder)).free


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def require_disk(
    folder: Path,
    *,
    needed_bytes: int = NEEDED_DISK_BYTES,
    free_bytes: FreeBytes = free_disk_bytes,
    variable: str = STATE_VARIABLE,
) -> None:
    """Raise NotReady, with needed and free space, unless the disk of ``folder`` has enough.

    :param variable: the environment variable that sets the folder.
    :raises WrongInput: the folder is a file, or would be below one.
    """
    if not _existing(folder).is_dir():
        raise WrongInput(
            where="environment", field=variable, value=folder, allowed="a folder, not a file"
        )
    free = free_bytes(folder)
    if free < needed_bytes:
        message = (
            f"not enough disk in {folder}: needs {needed_bytes / 1024**3:.1f} GiB, has "
            f"{free / 1024**3:.1f} GiB. Free some space, or set {variable} to a folder on a larger "
            "disk"
        )
        raise NotReady(message)


class Broker(ChildServer):
    """One broker in one folder: start, stop and start again on the same port with the same data."""

    what = "the Kafka broker"
    stop_grace_seconds = 20.0

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        host: str = LOOPBACK,
        proxied: ProxiedListener | None = None,
        free_bytes: FreeBytes = free_disk_bytes,
    ) -> None:
        """Keep all files below ``folder``; without ``port`` a free one is chosen, once.

        ``host`` is an address of this machine: the broker listens on it and advertises it.
        ``proxied`` adds the listener for clients behind the broker proxy.
        """
        self._layout = BrokerLayout(folder.absolute())
        super().__init__(self._layout.log, self._layout.output)
        self._proxied, self._port, self._host = proxied, port, host
        self._free_bytes = free_bytes

    @property
    def port(self) -> int:
        """The port of the client listener."""
        if self._port is None:
            self._port = free_port()
        return self._port

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return f"{self._host}:{self.port}"

    @property
    def folder(self) -> Path:
        """The folder of data, settings and logs."""
        return self._layout.folder

    def start(self, *, timeout_seconds: float = _START_TIMEOUT_SECONDS) -> None:
        """Start the broker and return when it answers a client; no effect while it runs."""
        if self.state() == "running":
            return
        layout = self._layout
        require_disk(layout.folder, free_bytes=self._free_bytes)
        require_free(self.port, "Kafka broker", self._host)
        taken = {self.port}
        if self._proxied is not None:
            require_free(self._proxied.port, "Kafka broker, behind the proxy")
            taken |= {self._proxied.port, self._proxied.advertised_port}
        java, jars = find_java(), jar_paths(BROKER)
        layout.data.mkdir(parents=True, exist_ok=True)
        properties = server_properties(
            layout,
            port=self.port,
            controller_port=free_port(besides=taken),
            host=self._host,
            proxied=self._proxied,
        )
        layout.settings.write_text(properties, encoding="utf-8")
        layout.logging.write_text(logging_properties(layout), encoding="utf-8")
        if not (layout.data / "meta.properties").is_file():
            self._format(java, jars)
        command = [*_java(java, jars, layout, JVM_OPTIONS), "kafka.Kafka", str(layout.settings)]
        with layout.output.open("ab") as output:
            self._process = start_tied(command, log=output)
        try:
            self.await_answer(self._problem, timeout_seconds)
        except NotReady:
            self.stop(grace_seconds=2)
            raise

    def _format(self, java: JavaRuntime, jars: list[Path]) -> None:
        """Write the cluster id and the first metadata into the empty data folder."""
        layout = self._layout
        # No first hyphen: the tool would take it for an option.
        cluster_id = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")
        # The C1 compiler only: this process runs 0.7 s, with both compilers 1.3 s.
        command = _java(java, jars, layout, ("-XX:TieredStopAtLevel=1", "-Xmx128m"))
        command += ["kafka.tools.StorageTool", "format", "--cluster-id", cluster_id]
        command += ["--config", str(layout.settings)]
        with layout.output.open("ab") as output:
            process = start_tied(command, log=output)
            try:
                seen = f"exit code {process.wait(timeout=_FORMAT_TIMEOUT_SECONDS)}"
            except subprocess.TimeoutExpired:
                seen = "no end in time"
            finally:
                end_process(process.pid, grace_seconds=1)
        if seen != "exit code 0":
            shutil.rmtree(layout.data, ignore_errors=True)
            raise NotReady(f"formatting {layout.data} failed ({seen}):\n{self.log_tail()}")

    def _problem(self) -> str:
        """Return why it does not serve yet: the listener first, then a client's request."""
        if not accepts_connections(self.port, self._host):
            return "the port is closed"
        try:
            with KafkaAdmin(self.bootstrap_servers, timeout_seconds=5.0) as admin:
                admin.check_reachable()
        except NotReady as error:
            return str(error)
        return ""


def _java(
    java: JavaRuntime, jars: list[Path], layout: BrokerLayout, options: tuple[str, ...]
) -> list[str]:
    class_path = ":".join(str(jar) for jar in jars)
    logging = f"-Dlog4j2.configurationFile={layout.logging}"
    return [str(java.executable), *options, logging, "-cp", class_path]
