"""Settings of the embedded broker, with the reason for each that differs from Kafka's default."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from lagbench.embedded.ports import LOOPBACK

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
