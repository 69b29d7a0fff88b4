"""Report which parts of the bench run: uptime, address and memory."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.embedded.bench_state import BenchState, ProcessRecord, autoscaler_is_ready
from lagbench.embedded.child_server import PartState
from lagbench.errors import NotReady

_ANSWER_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One part of the bench; None means unknown or not applicable."""

    name: str
    is_running: bool
    pid: int | None = None
    uptime_seconds: float | None = None
    rss_bytes: int | None = None
    address: str | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class BenchStatus:
    """The parts of the bench, the supervisor first."""

    parts: tuple[PartStatus, ...]

    @property
    def is_up(self) -> bool:
        """True if every part runs."""
        return bool(self.parts) and all(part.is_running for part in self.parts)


def status_of(state: BenchState | None) -> BenchStatus:
    """Check each part that ``bench.json`` names; without the file all parts are down."""
    if state is None or not state.supervisor.is_alive():
        names = ("supervisor", "broker", "localkube", "autoscaler")
        return BenchStatus(tuple(PartStatus(name, is_running=False) for name in names))
    localkube = _part(
        "localkube", state.localkube, state.localkube_state, address=state.kubernetes_url
    )
    supervisor = _part("supervisor", state.supervisor, "running", address=str(state.state_dir))
    autoscaler = PartStatus(
        "autoscaler",
        is_running=localkube.is_running and autoscaler_is_ready(state.kubeconfig),
        remark="a pod of localkube",
    )
    return BenchStatus((supervisor, _broker(state), localkube, autoscaler))


def answers(settings: dict[str, str]) -> bool:
    """Return whether Kafka answers a client's request."""
    try:
        with KafkaAdmin(settings, timeout_seconds=_ANSWER_SECONDS) as admin:
            return admin.check_reachable() > 0
    except NotReady:
        return False


def _broker(state: BenchState) -> PartStatus:
    if state.kafka == "foreign":
        return PartStatus(
            "broker",
            is_running=answers(state.kafka_settings),
            address=state.bootstrap_servers,
            remark="a foreign cluster",
        )
    return _part("broker", state.broker, state.broker_state, address=state.bootstrap_servers)


def _part(
    name: str, record: ProcessRecord | None, recorded: PartState, *, address: str
) -> PartStatus:
    """Check the process itself: it may have ended up to half a second after the record."""
    if record is None or not record.is_alive():
        remark = "died" if recorded != "stopped" else "stopped on request"
        return PartStatus(name, is_running=False, address=address, remark=remark)
    try:
        process = psutil.Process(record.pid)
        rss = int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return PartStatus(name, is_running=False, address=address, remark="died")
    uptime = max(0.0, time.time() - record.started_at)
    return PartStatus(name, True, record.pid, uptime, rss, address)
