"""Run a real Apache Kafka broker (KRaft, one node) as a child process, by default on loopback."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.embedded.child_server import ChildServer, accepts_connections, free_port, require_free
from lagbench.embedded.jars import BROKER, jar_paths
from lagbench.embedded.java import JavaRuntime, find_java
from lagbench.errors import NotReady, WrongInput
from lagbench.project import STATE_VARIABLE
from localkube.ports import LOOPBACK
from localkube.processes import end_process, start_tied

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


NODE_ID = 1

# The machine's memory is for the page cache, the pods and Spark. Measured with these limits:
# 256,000 messages/s of 256 B from one producer on two cores.
HEAP_OPTIONS = ("-Xms256m", "-Xmx512m")

# G1 with Kafka's own pause goal: a long pause would show as a dip in the measured rate. The
# first-tier compiler alone: in the minutes of a rehearsal the optimising one takes more from the
# consumers than it gives (19 s of CPU instead of 44 s in the broker's first minute, at 60,000
# messages/s a p99 of the lateness of 8 ms instead of 12 ms, and 256,000 messages/s instead of
# 229,000). No class archive: a first run must create it, and it must be discarded at each change of
# Java; saving 1.2 s is not worth that.
JVM_OPTIONS = (
    *HEAP_OPTIONS,
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)

_MIB = 1024 * 1024


class BrokerLayout:
    """The paths of a broker's files, all below one folder."""

    def __init__(self, folder: Path) -> None:
        """Set the paths; nothing is created yet."""
        self.folder = folder
        self.data = folder / "data"  # the log segments and the metadata log
        self.settings = folder / "server.properties"  # rewritten at each start
        self.logging = folder / "log4j2.properties"
        self.log = folder / "server.log"  # with its predecessor at most two files of 10 MB
        self.output = folder / "stdout.log"  # errors that occur before logging works


class ProxiedListener(BaseModel):
    """A second listener for clients behind the broker proxy; both ports are on loopback.

    Clients follow the advertised address, so this listener advertises the proxy's port.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    port: int = Field(description="the broker listens here, for the proxy")
    advertised_port: int = Field(description="the proxy listens here, for clients")

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients behind the proxy."""
        return f"{LOOPBACK}:{self.advertised_port}"


def server_properties(
    layout: BrokerLayout,
    *,
    port: int,
    controller_port: int,
    host: str = LOOPBACK,
    proxied: ProxiedListener | None = None,
) -> str:
    """Return server.properties for one node that is broker and controller.

    ``host`` is the address of the clients' listener; the controller's stays on loopback, as does
    the listener behind the proxy.
    """
    listeners = {"PLAINTEXT": f"{host}:{port}", "CONTROLLER": f"{LOOPBACK}:{controller_port}"}
    advertised = {"PLAINTEXT": f"{host}:{port}"}
    if proxied is not None:
        listeners["PROXIED"] = f"{LOOPBACK}:{proxied.port}"
        advertised["PROXIED"] = proxied.bootstrap_servers
    settings: dict[str, object] = {
        "node.id": NODE_ID,
        "process.roles": "broker,controller",
        "listeners": ",".join(f"{name}://{place}" for name, place in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{it}" for name, it in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{NODE_ID}@{LOOPBACK}:{controller_port}",
        "log.dirs": layout.data,
        # One node: its internal topics have one replica. Eight partitions spread the groups of
        # one run well enough, and each partition costs open files and start-up time.
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 8,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 4,
        # A misspelt topic must fail, not appear empty.
        "auto.create.topics.enable": "false",
        # The default of 3 s would be part of every group's first join.
        "group.initial.rebalance.delay.ms": 0,
        # Kill tests use short sessions; these limits do not change the clients' own defaults.
        "group.min.session.timeout.ms": 1000,
        "group.consumer.min.session.timeout.ms": 1000,
        # With KIP-848 the broker sets the heartbeat interval: a join of 24 took 10.6 s with the
        # default of 5 s, and 2.5 s with 1 s (the classic protocol's heartbeat is a client setting).
        "group.consumer.min.heartbeat.interval.ms": 500,
        "group.consumer.heartbeat.interval.ms": 1000,
        # Retention by size, per partition, protects the disk against topics of others. A run's own
        # topics keep everything and are deleted at its end. A partition of the largest scenario
        # would stay far below (20 M events x 256 B / 24 = 213 MB).
        "log.retention.hours": 48,
        "log.retention.bytes": 1024 * _MIB,
        "log.segment.bytes": 128 * _MIB,
        "log.retention.check.interval.ms": 30_000,
        # Deleted topics free their space after 1 s instead of 60 s.
        "log.segment.delete.delay.ms": 1000,
        # Two cores: few threads, so that the load under test gets the processor.
        "num.network.threads": 2,
        "num.io.threads": 4,
        "num.recovery.threads.per.data.dir": 2,
        "background.threads": 2,
        # The default buffer of 128 MB is a quarter of the heap; the compacted topics are tiny.
        "log.cleaner.dedupe.buffer.size": 8 * _MIB,
        # For some milliseconds before its end a fenced broker answers that there is no broker. A
        # librdkafka that reads this as the last answer forgets its only broker for good (issue 5301
        # there, still in 2.16). One node has no leadership to hand over.
        "controlled.shutdown.enable": "false",
        # A restart waits for the end of the previous registration (9 s by default).
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def logging_properties(layout: BrokerLayout) -> str:
    """Return log4j's configuration: one bounded file, nothing on the terminal."""
    pattern = "%d{yyyy-MM-dd'T'HH:mm:ss.SSS} %p %c{1}: %m%n"
    return (
        "status=error\n"
        "appender.file.type=RollingFile\n"
        "appender.file.name=file\n"
        f"appender.file.fileName={layout.log}\n"
        f"appender.file.filePattern={layout.log}.%i\n"
        "appender.file.layout.type=PatternLayout\n"
        f"appender.file.layout.pattern={pattern}\n"
        "appender.file.policies.type=Policies\n"
        "appender.file.policies.size.type=SizeBasedTriggeringPolicy\n"
        "appender.file.policies.size.size=10MB\n"
        "appender.file.strategy.type=DefaultRolloverStrategy\n"
        "appender.file.strategy.max=1\n"
        "rootLogger.level=info\n"
        "rootLogger.appenderRef.file.ref=file\n"
        # The settings are in server.properties; printing all 400 again adds nothing.
        "logger.config.name=org.apache.kafka.common.config.AbstractConfig\n"
        "logger.config.level=warn\n"
    )
