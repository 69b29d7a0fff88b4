"""Files through which the supervisor and other terminals find each other.

In the state folder: ``supervisor.json`` from the supervisor's start to its end, ``bench.json``
while everything is up, ``progress.log`` and ``failure.txt`` of the last start.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lagbench.adapters.process.processes import is_alive
from lagbench.embedded.broker import ProxiedListener
from lagbench.embedded.child_server import PartState
from lagbench.embedded.kafka_choice import write_atomically

Model = TypeVar("Model", bound=BaseModel)


class ProcessRecord(BaseModel):
    """A process, distinguished by its start time from a later one with the same pid."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    started_at: float
    """Seconds since the epoch, as the kernel reports."""

    def is_alive(self) -> bool:
        """Return whether exactly this process runs."""
        return is_alive(self.pid, started_at=self.started_at)

    @classmethod
    def of(cls, pid: int) -> ProcessRecord | None:
        """Record a running process; None if it has ended."""
        try:
            return cls(pid=pid, started_at=psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return None


class BenchState(BaseModel):
    """A running bench: its parts and their addresses."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    state_dir: Path
    started_at: datetime
    supervisor: ProcessRecord
    attached_to: int | None
    """The bench ends with this process; None: it runs until ``down``."""
    bootstrap_servers: str
    kafka_settings: dict[str, str]
    """librdkafka's settings for clients; more than the servers for a secured cluster."""
    kafka: Literal["embedded", "foreign"]
    broker: ProcessRecord | None
    broker_state: PartState
    proxied: ProxiedListener | None = None
    """The embedded broker's listener for clients behind the broker proxy."""
    broker_changed_at: int = 0
    """When ``broker_state`` became what it is, as seen by the supervisor (unix ns)."""
    kubeconfig: Path
    kubernetes_url: str
    localkube: ProcessRecord | None
    localkube_state: PartState


class BrokerOutage(BaseModel):
    """A request to stop the broker for a time; the supervisor starts it again by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seconds: float = Field(ge=0, le=3600)
    """From the end of the broker's process to its next start."""


class BenchFiles:
    """The paths of the files of the bench's parts."""

    def __init__(self, state_dir: Path) -> None:
        """Set the paths below ``state_dir``; nothing is created yet."""
        self.state_dir = state_dir.absolute()
        self.bench = self.state_dir / "bench.json"
        self.supervisor = self.state_dir / "supervisor.json"
        self.supervisor_lock = self.state_dir / "supervisor.lock"
        self.up_lock = self.state_dir / "up.lock"
        self.log = self.state_dir / "supervisor.log"
        self.progress = self.state_dir / "progress.log"
        self.failure = self.state_dir / "failure.txt"
        self.broker_outage = self.state_dir / "broker-outage.json"
        self.kafka_port = self.state_dir / "kafka-port"
        self.kafka_config = self.state_dir / "kafka-client.properties"
        self.broker = self.state_dir / "broker"
        self.localkube = self.state_dir / "localkube"
        self.kubeconfig = self.localkube / "kubeconfig"
        self.localkube_state = self.localkube / "localkube.json"
        self.localkube_identity = self.localkube / "identity.json"
        self.localkube_version = self.localkube / "resource-version"
        self.localkube_log = self.state_dir / "localkube.log"

    def read_bench(self) -> BenchState | None:
        """Return the content of ``bench.json``; None if it is missing or unreadable."""
        return _read(self.bench, BenchState)

    def write_bench(self, state: BenchState) -> None:
        """Replace ``bench.json`` atomically."""
        write_atomically(self.bench, state.model_dump_json(indent=2) + "\n", mode=0o600)

    def read_supervisor(self) -> ProcessRecord | None:
        """Return the supervisor that started last and did not clean up, alive or not."""
        return _read(self.supervisor, ProcessRecord)

    def write_supervisor(self, record: ProcessRecord) -> None:
        """Record the supervisor's process."""
        write_atomically(self.supervisor, record.model_dump_json() + "\n")

    def ask_for_outage(self, outage: BrokerOutage) -> None:
        """Write the request that the supervisor reads at its next SIGUSR1."""
        write_atomically(self.broker_outage, outage.model_dump_json() + "\n")

    def take_outage(self) -> BrokerOutage | None:
        """Return the request and remove it; None: the broker stays away until it is started."""
        outage = _read(self.broker_outage, BrokerOutage)
        self.broker_outage.unlink(missing_ok=True)
        return outage

    def forget(self) -> None:
        """Remove the files that describe a running bench."""
        self.bench.unlink(missing_ok=True)
        self.supervisor.unlink(missing_ok=True)


def _read(path: Path, model: type[Model]) -> Model | None:
    try:
        return model.model_validate_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValidationError):
        return None  # this version could not use the bench of a file of another version
