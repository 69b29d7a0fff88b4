"""Check whether this machine can run the bench, and report which parts of a running one are up."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import psutil

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.process.processor_speed import Processor, this_processor
from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import list_scenarios
from lagbench.core.cluster.policy_manifest import asks_prometheus
from lagbench.core.simulation.plan import cores_needed, plan_cell
from lagbench.embedded.bench_state import BenchFiles, BenchState, ProcessRecord, autoscaler_is_ready
from lagbench.embedded.broker import NEEDED_DISK_BYTES, free_disk_bytes
from lagbench.embedded.child_server import PartState, free_port
from lagbench.embedded.jars import BROKER, SPARK, JarSet, is_cached
from lagbench.embedded.java import find_java
from lagbench.embedded.kafka_choice import PORT_VARIABLE, foreign_cluster
from lagbench.errors import LagbenchError, NotReady
from localkube.ports import is_free

_GIB = 1024**3
_LEAST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: the checked item, the observation and the remedy."""

    name: str
    status: Literal["ok", "warn", "fail"]
    seen: str
    remedy: str = ""


def examine(files: BenchFiles, state: BenchState | None, left_over: list[int]) -> list[Check]:
    """Return the findings, the machine first and then the bench."""
    processor = this_processor()
    python = ".".join(str(part) for part in sys.version_info[:3])
    disk, memory = free_disk_bytes(files.state_dir), psutil.virtual_memory().available
    space = "free some space, or set LAGBENCH_STATE_DIR to a folder on a larger disk"
    left = f"processes {', '.join(map(str, left_over))} of an earlier bench"
    return [
        _at_least(
            "Python",
            python,
            sys.version_info[:2] >= _LEAST_PYTHON
            or "install Python 3.11 or later, then `make install`",
        ),
        _tried("Java", _java, "`make install` installs a Java as a wheel"),
        _jars(BROKER),
        _jars(SPARK),
        _at_least(
            "disk",
            f"{disk / _GIB:.1f} GiB free for {files.state_dir}",
            disk >= NEEDED_DISK_BYTES or space,
            disk >= 10 * _GIB or f"enough for small scenarios only; {space}",
        ),
        # Measured at the end of quick_spike: broker 0.5, Spark 1.5, Airflow 1.1, twelve consumers
        # 0.4 GiB.
        _at_least(
            "memory",
            f"{memory / _GIB:.1f} GiB available",
            memory >= 2 * _GIB or "stop other programs: the minimum is 2 GiB",
            memory >= 4 * _GIB or "4 GiB are enough for broker, pods, Airflow and Spark",
        ),
        _at_least(
            "cores",
            f"{processor.cores}",
            True,
            processor.cores >= 2
            or "expect an invalid run: the generator and the consumers share one core",
        ),
        _at_least(
            "speed",
            f"a core has {processor.speed:.0%} of the speed of the reference machine",
            True,
            processor.speed >= 0.5
            or "stop other work, or wait: this host may be shared; large scenarios may be invalid",
        ),
        scenarios_carried(processor),
        _tried("ports", lambda: _ports(state), f"unset {PORT_VARIABLE}, or stop some servers"),
        _tried("Kafka", lambda: _kafka(files), "correct or unset the variable"),
        *_parts(state),
        _at_least("left-overs", left if left_over else "none", True, not left_over or "make down"),
    ]


def _at_least(
    name: str, seen: str, enough: Literal[True] | str, comfortable: Literal[True] | str = True
) -> Check:
    """Return the finding: a text in place of True is the remedy of what is missing."""
    if enough is not True:
        return Check(name, "fail", seen, str(enough))
    return (
        Check(name, "ok", seen) if comfortable is True else Check(name, "warn", seen, comfortable)
    )


def _tried(name: str, look: Callable[[], str], remedy: str) -> Check:
    try:
        return Check(name, "ok", look())
    except LagbenchError as error:
        return Check(name, "fail", str(error), remedy)


def _java() -> str:
    java = find_java()
    return f"{java.version} ({java.origin}, {java.executable})"


def _jars(jar_set: JarSet) -> Check:
    name = f"jars: {jar_set.name}"
    if is_cached(jar_set):
        return Check(name, "ok", f"{jar_set.version} in {jar_set.folder}")
    remedy = "python -m lagbench.embedded.jars (or the first start fetches them: one minute)"
    return Check(name, "warn", "not fetched yet", remedy)


def scenarios_carried(processor: Processor) -> Check:
    """Report which catalog scenarios, each with its own policy, need more than this processor."""
    cores = processor.cores
    free_mebibytes = psutil.virtual_memory().available // 2**20
    names = list_scenarios()
    lacking = []
    for name in names:
        try:
            cell = checked_cell(name)
            plan = plan_cell(cell.scenario, cell.policy)
            needed = cores_needed(plan) / processor.speed
        except LagbenchError as error:
            return Check("scenarios", "fail", str(error), "correct the file of the catalog")
        if needed > cores:
            lacking.append(f"{name} ({needed:.1f} cores)")
        elif (plan.memory_mebibytes or 0) > free_mebibytes:
            lacking.append(f"{name} ({(plan.memory_mebibytes or 0) / 1024:.1f} GiB for its JVMs)")
    if lacking:
        remedy = "they may be invalid here; lagbench plan SCENARIO shows details"
        seen = f"too much for {cores} of this speed: {', '.join(lacking)}"
        return Check("scenarios", "warn", seen, remedy)
    return Check("scenarios", "ok", f"{cores} cores carry all {len(names)} of the catalog")


def _ports(state: BenchState | None) -> str:
    if state is not None:
        return f"Kafka {state.bootstrap_servers}, {state.kubernetes_url}"
    wanted = os.environ.get(PORT_VARIABLE, "")
    if wanted.isdecimal() and not is_free(int(wanted)):
        raise NotReady(f"{wanted} is taken")
    free_port()
    return wanted or "a free one is chosen"


def _kafka(files: BenchFiles) -> str:
    foreign = foreign_cluster(files.kafka_port)
    return f"foreign cluster {foreign.bootstrap_servers}" if foreign else "the embedded broker"


def _parts(state: BenchState | None) -> list[Check]:
    if state is None:
        return [Check("bench", "ok", "not running", "lagbench up")]
    return [
        Check(part.name, "ok", f"running: {part.address or part.remark}")
        if part.is_running
        else Check(part.name, "fail", part.remark or "down", "lagbench down, then lagbench up")
        for part in status_of(state).parts
    ]


PROGRAM = "prometheus"


def require_prometheus(policy: Mapping[str, Any], *, where: str) -> None:
    """Reject a policy with a prometheus trigger where the program is not installed."""
    if asks_prometheus(policy) and shutil.which(PROGRAM) is None:
        raise NotReady(
            f"policy {where} has a prometheus trigger, and the embedded bench finds no program "
            f"{PROGRAM} to answer it: apt-get install --no-install-recommends {PROGRAM}, or use a "
            "cluster (--target)"
        )


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
