"""Files through which the supervisor and other terminals find each other.

In the state folder: ``supervisor.json`` from the supervisor's start to its end, ``bench.json``
while everything is up, ``progress.log`` and ``failure.txt`` of the last start.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar

import psutil
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lagbench.adapters.kube.cluster_check import base_objects
from lagbench.adapters.kube.kube import Kube
from lagbench.core.scenario.run_names import AUTOSCALER_DEPLOYMENT, AUTOSCALER_NAMESPACE, NAMESPACE
from lagbench.embedded.broker import ProxiedListener
from lagbench.embedded.child_server import ChildServer, PartState
from lagbench.embedded.kafka_choice import write_atomically
from lagbench.errors import NotReady
from localkube.processes import CONTROL_PLANE, is_alive, start_tied

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


_SERVE_TIMEOUT_SECONDS = 60.0
_READY_TIMEOUT_SECONDS = 60.0


class LocalkubeProcess(ChildServer):
    """One localkube below the bench's state folder; stopping it stops its pods."""

    what = "localkube"
    # A pod has 30 s by Kubernetes' default to end after SIGTERM; localkube then kills it.
    stop_grace_seconds = 40.0

    def __init__(self, files: BenchFiles) -> None:
        """Keep the paths; nothing runs yet."""
        super().__init__(files.localkube_log)
        self._files = files

    def launch(self, env: Mapping[str, str]) -> None:
        """Start it with an empty store and return at once.

        Its identity stays, and the kubeconfig that has it: clients reconnect by themselves. So do
        the versions, which count on: a watch that resumes with an old one gets 410 and lists again.
        """
        files = self._files
        files.localkube.mkdir(parents=True, mode=0o700, exist_ok=True)
        kept = {files.localkube_identity, files.localkube_version, files.kubeconfig}
        for old in set(files.localkube.iterdir()) - kept:
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.unlink()
        module = "lagbench.embedded.localkube_with_keda"
        command = [sys.executable, "-m", module, "--state-dir", str(files.localkube)]
        with files.localkube_log.open("ab") as log:
            self._process = start_tied(command, log=log, env=env, niceness=CONTROL_PLANE)

    def await_serving(self, *, timeout_seconds: float = _SERVE_TIMEOUT_SECONDS) -> None:
        """Return when the API answers; it writes its state after the kubeconfig, when it serves."""
        state = self._files.localkube_state
        self.await_answer(lambda: "" if state.is_file() else f"no {state.name}", timeout_seconds)

    def url(self) -> str:
        """Return the API server's address from the kubeconfig."""
        config = yaml.safe_load(self._files.kubeconfig.read_text(encoding="utf-8"))
        return str(config["clusters"][0]["cluster"]["server"])


def install_autoscaler(kubeconfig: Path) -> None:
    """Apply the autoscaler's manifests and return when its pod is ready."""
    with closing(Kube.from_kubeconfig(kubeconfig)) as kube:
        for name in (NAMESPACE, AUTOSCALER_NAMESPACE):
            kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for document in base_objects("autoscaler", without=()):
            kube.namespace = document["metadata"].get("namespace", AUTOSCALER_NAMESPACE)
            kube.apply(document)
        kube.namespace = AUTOSCALER_NAMESPACE
        kube.wait_until(
            lambda api: _ready_replicas(api) >= 1,
            timeout_seconds=_READY_TIMEOUT_SECONDS,
            what=f"the autoscaler's pod (Deployment {AUTOSCALER_DEPLOYMENT}) to be ready",
            last_seen=lambda: str(
                (kube.get("Deployment", AUTOSCALER_DEPLOYMENT) or {}).get("status")
            ),
        )


def autoscaler_is_ready(kubeconfig: Path) -> bool:
    """Return whether the autoscaler's pod is ready; False when the API does not answer."""
    try:
        with closing(Kube.from_kubeconfig(kubeconfig, namespace=AUTOSCALER_NAMESPACE)) as kube:
            return _ready_replicas(kube) >= 1
    except NotReady:
        return False


def _ready_replicas(kube: Kube) -> int:
    """Return status.readyReplicas; Kubernetes leaves the field out when it is 0."""
    deployment = kube.get("Deployment", AUTOSCALER_DEPLOYMENT) or {}
    return int((deployment.get("status") or {}).get("readyReplicas") or 0)
