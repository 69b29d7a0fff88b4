"""Check whether this machine can run the bench, and whether a running bench is healthy."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Literal

import psutil

from lagbench.adapters.process.processor_speed import Processor, this_processor
from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import list_scenarios
from lagbench.core.plan import cores_needed, plan_cell
from lagbench.embedded.bench_state import BenchFiles, BenchState
from lagbench.embedded.bench_status import status_of
from lagbench.embedded.broker import NEEDED_DISK_BYTES, free_disk_bytes
from lagbench.embedded.jars import BROKER, SPARK, JarSet, is_cached
from lagbench.embedded.java import find_java
from lagbench.embedded.kafka_choice import PORT_VARIABLE, foreign_cluster
from lagbench.embedded.ports import free_port, is_free
from lagbench.errors import LagbenchError

_GIB = 1024**3
# Measured at the end of quick_spike: broker 0.5, Spark 1.5, Airflow 1.1, twelve consumers 0.4 GiB.
_ENOUGH_MEMORY_BYTES = 4 * _GIB
_LEAST_MEMORY_BYTES = 2 * _GIB
_COMFORTABLE_DISK_BYTES = 10 * _GIB
_ENOUGH_CORES = 2
_ENOUGH_SPEED = 0.5
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
    checks = [_python(), _java(), _jars(BROKER), _jars(SPARK), _disk(files), _memory()]
    processor = this_processor()
    checks += [_cores(processor.cores), _speed(processor), scenarios_carried(processor)]
    checks += [_ports(state), _kafka(files), *_parts(state), _left_over(left_over)]
    return checks


def _python() -> Check:
    seen = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < _LEAST_PYTHON:
        return Check("Python", "fail", seen, "install Python 3.11 or later, then `make install`")
    return Check("Python", "ok", seen)


def _java() -> Check:
    try:
        java = find_java()
    except LagbenchError as error:
        return Check("Java", "fail", str(error), "`make install` installs a Java as a wheel")
    return Check("Java", "ok", f"{java.version} ({java.origin}, {java.executable})")


def _jars(jar_set: JarSet) -> Check:
    name = f"jars: {jar_set.name}"
    if is_cached(jar_set):
        return Check(name, "ok", f"{jar_set.version} in {jar_set.folder}")
    remedy = "python -m lagbench.embedded.jars (or the first start fetches them: one minute)"
    return Check(name, "warn", "not fetched yet", remedy)


def _disk(files: BenchFiles) -> Check:
    free = free_disk_bytes(files.state_dir)
    seen = f"{free / _GIB:.1f} GiB free for {files.state_dir}"
    remedy = "free some space, or set LAGBENCH_STATE_DIR to a folder on a larger disk"
    if free < NEEDED_DISK_BYTES:
        return Check("disk", "fail", seen, remedy)
    if free < _COMFORTABLE_DISK_BYTES:
        return Check("disk", "warn", seen, f"enough for small scenarios only; {remedy}")
    return Check("disk", "ok", seen)


def _memory() -> Check:
    available = psutil.virtual_memory().available
    seen = f"{available / _GIB:.1f} GiB available"
    if available < _LEAST_MEMORY_BYTES:
        return Check("memory", "fail", seen, "stop other programs: the minimum is 2 GiB")
    if available < _ENOUGH_MEMORY_BYTES:
        return Check("memory", "warn", seen, "4 GiB are enough for broker, pods, Airflow and Spark")
    return Check("memory", "ok", seen)


def _cores(cores: int) -> Check:
    if cores < _ENOUGH_CORES:
        remedy = "expect an invalid run: the generator and the consumers share one core"
        return Check("cores", "warn", f"{cores}", remedy)
    return Check("cores", "ok", f"{cores}")


def _speed(processor: Processor) -> Check:
    seen = f"a core has {processor.speed:.0%} of the speed of the reference machine"
    if processor.speed < _ENOUGH_SPEED:
        remedy = "stop other work, or wait: this host may be shared; large scenarios may be invalid"
        return Check("speed", "warn", seen, remedy)
    return Check("speed", "ok", seen)


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
        remedy = "they may be invalid here; `lagbench plan` shows details"
        seen = f"too much for {cores} of this speed: {', '.join(lacking)}"
        return Check("scenarios", "warn", seen, remedy)
    return Check("scenarios", "ok", f"{cores} cores carry all {len(names)} of the catalog")


def _ports(state: BenchState | None) -> Check:
    if state is not None:
        return Check("ports", "ok", f"Kafka {state.bootstrap_servers}, {state.kubernetes_url}")
    wanted = os.environ.get(PORT_VARIABLE, "")
    if wanted.isdecimal() and not is_free(int(wanted)):
        return Check("ports", "fail", f"{wanted} is taken", f"unset {PORT_VARIABLE} or change it")
    try:
        free_port()
    except LagbenchError as error:
        return Check("ports", "fail", str(error), "stop some servers")
    return Check("ports", "ok", wanted or "a free one is chosen")


def _kafka(files: BenchFiles) -> Check:
    try:
        foreign = foreign_cluster(files.kafka_port)
    except LagbenchError as error:
        return Check("Kafka", "fail", str(error), "correct or unset the variable")
    if foreign is None:
        return Check("Kafka", "ok", "the embedded broker")
    return Check("Kafka", "ok", f"foreign cluster {foreign.bootstrap_servers}")


def _parts(state: BenchState | None) -> list[Check]:
    if state is None:
        return [Check("bench", "ok", "not running", "lagbench up")]
    return [
        Check(part.name, "ok", f"running: {part.address or part.remark}")
        if part.is_running
        else Check(part.name, "fail", part.remark or "down", "lagbench down, then lagbench up")
        for part in status_of(state).parts
    ]


def _left_over(pids: list[int]) -> Check:
    if pids:
        numbers = ", ".join(str(pid) for pid in pids)
        return Check("left-overs", "warn", f"processes {numbers} of an earlier bench", "make down")
    return Check("left-overs", "ok", "none")
