"""The embedded bench as a whole: one supervisor, up and down from anywhere, no orphan ever."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
from tests.eventually import eventually

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.core.scenario.actions import BrokerRestart
from lagbench.embedded import bench
from lagbench.embedded import doctor as bench_status
from lagbench.embedded.bench_state import BenchState
from lagbench.embedded.broker import Broker
from lagbench.embedded.supervisor import MARK_VARIABLE
from lagbench.errors import NotReady
from lagbench.programs.actions.performers import RestartedBroker
from lagbench.project import STATE_VARIABLE
from localkube.processes import is_alive

pytestmark = pytest.mark.slow


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """Give a state folder whose bench, if any, is down afterwards and has left no process."""
    folder = tmp_path / "state"
    yield folder
    bench.down(folder)
    _await_no_process(folder)


def test_up_is_idempotent_and_down_too(state_dir: Path) -> None:
    """Two callers at the same moment, and a later one, get the same bench; down finds it once."""
    found: list[BenchState] = []

    def start() -> None:
        found.append(bench.up(state_dir, attached=False, on_progress=_ignore))

    callers = [threading.Thread(target=start) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=400)
    start()

    assert len(found) == 3
    assert found[0] == found[1] == found[2]
    assert bench.status(state_dir).is_up
    assert [c.name for c in bench.doctor(state_dir) if c.status == "fail"] == []
    assert "broker" in bench.down(state_dir)
    assert bench.down(state_dir) == []
    assert not bench.status(state_dir).is_up
    assert _marked(state_dir) == []


def test_killed_supervisor_leaves_nothing(state_dir: Path) -> None:
    """SIGKILL of the supervisor ends broker, localkube and the autoscaler's pod."""
    state = bench.up(state_dir, attached=False, on_progress=_ignore)
    assert len(_marked(state_dir)) >= 3

    os.kill(state.supervisor.pid, signal.SIGKILL)

    _await_no_process(state_dir)
    assert bench.running(state_dir) is None
    assert not bench.status(state_dir).is_up


def test_attached_bench_ends_with_its_caller(state_dir: Path) -> None:
    """SIGKILL of the process that a bench is attached to ends the bench."""
    program = (
        "import pathlib, sys, time\n"
        "from lagbench.embedded import bench\n"
        "state = bench.up(pathlib.Path(sys.argv[1]), attached=True, on_progress=lambda _: None)\n"
        "print(state.supervisor.pid, flush=True)\n"
        "time.sleep(120)\n"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", program, str(state_dir)], stdout=subprocess.PIPE, text=True
    )
    assert caller.stdout is not None
    supervisor = int(caller.stdout.readline())
    assert is_alive(supervisor)

    caller.kill()
    caller.wait(timeout=60)

    eventually(lambda: not is_alive(supervisor), "the supervisor's end")
    _await_no_process(state_dir)


def test_broken_off_start_leaves_nothing(state_dir: Path) -> None:
    """SIGTERM to the supervisor in mid-start makes up fail and leaves no process."""

    def end_at_kafka(line: str) -> None:
        if "Kafka" in line:
            for pid in _supervisors(state_dir):
                os.kill(pid, signal.SIGTERM)

    with pytest.raises(NotReady, match="SIGTERM"):
        bench.up(state_dir, attached=False, on_progress=end_at_kafka)

    _await_no_process(state_dir)
    assert bench.running(state_dir) is None


def test_a_restart_outlives_the_process_that_asked_for_it(state_dir: Path) -> None:
    """The supervisor starts the broker again after the outage, and keeps its topics."""
    state = bench.up(state_dir, attached=False, on_progress=_ignore)
    with KafkaAdmin(state.bootstrap_servers) as admin:
        admin.create_topics([TopicSpec("lagbench.fault.events", 2)])
    program = (
        "import os, pathlib, sys\n"
        "from lagbench.embedded import bench\n"
        "state = bench.restart_broker(pathlib.Path(sys.argv[1]), outage_seconds=3)\n"
        "print(state.broker_state, state.broker_changed_at, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    asked_at = time.time_ns()
    ended = subprocess.run(
        [sys.executable, "-c", program, str(state_dir)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=300,
    )
    ended_at = time.time_ns()

    assert ended.returncode == -signal.SIGKILL
    seen, stopped_at = ended.stdout.split()
    assert seen == "stopped"
    assert asked_at < int(stopped_at) < ended_at
    back = bench.await_broker(state_dir, timeout_seconds=300)
    assert back.broker_changed_at - int(stopped_at) >= 3_000_000_000
    assert back.broker is not None
    assert state.broker is not None
    assert back.broker.pid != state.broker.pid
    assert (back.bootstrap_servers, back.proxied) == (state.bootstrap_servers, state.proxied)
    with KafkaAdmin(back.bootstrap_servers) as admin:
        assert admin.topic_names() == ["lagbench.fault.events"]

    bench.restart_broker(state_dir, outage_seconds=20)
    assert not _part(state_dir, "broker").is_running
    assert _part(state_dir, "localkube").is_running
    with pytest.raises(NotReady, match="still stopped"):
        bench.await_broker(state_dir, timeout_seconds=1)
    assert bench.up(state_dir, attached=False, on_progress=_ignore).broker is not None


def test_the_player_restarts_the_broker(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The action begins when the broker has ended, and lasts until it answers again."""
    state = bench.up(state_dir, attached=False, on_progress=_ignore)
    monkeypatch.setenv(STATE_VARIABLE, str(state_dir))
    action = BrokerRestart(kind="broker_restart", at_seconds=1, for_seconds=2)
    stage = SimpleNamespace(
        ready_pods=lambda: ["consumer-0"], pods=lambda: ["consumer-0", "consumer-1"]
    )
    performer = RestartedBroker(0, action, cast("Any", stage))

    assert performer.choose() == ["consumer-0"]
    performer.act()
    stopped_at = performer._stopped_at
    performer.hold(threading.Event())
    performer.undo()

    back = bench.running(state_dir)
    assert back is not None
    assert back.broker_state == "running"
    assert state.broker is not None
    assert back.broker is not None
    assert back.broker.pid != state.broker.pid
    assert back.broker_changed_at - stopped_at >= 2_000_000_000
    assert back.bootstrap_servers == state.bootstrap_servers
    assert re.search(r"\d+\.\d s", performer.detail)
    assert performer.came == ["consumer-1"]


def test_dead_broker_is_shown_and_replaced_by_up(state_dir: Path) -> None:
    """A killed broker is reported as down, not repaired in silence; the next up starts again."""
    state = bench.up(state_dir, attached=False, on_progress=_ignore)
    assert state.broker is not None

    os.kill(state.broker.pid, signal.SIGKILL)

    def broker_died() -> bool:
        seen = bench.running(state_dir)
        return seen is not None and seen.broker_state == "died"

    eventually(broker_died, "the broker's end")
    assert not _part(state_dir, "broker").is_running
    again = bench.up(state_dir, attached=False, on_progress=_ignore)
    assert again.supervisor.pid != state.supervisor.pid
    assert again.bootstrap_servers == state.bootstrap_servers
    assert bench.status(state_dir).is_up


def test_foreign_cluster_is_used_and_not_touched(
    state_dir: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With KAFKA_BOOTSTRAP_SERVERS no broker is started, and none is stopped."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)

    state = bench.up(state_dir, attached=False, on_progress=_ignore)

    assert (state.kafka, state.broker) == ("foreign", None)
    assert state.bootstrap_servers == broker.bootstrap_servers
    assert bench.status(state_dir).is_up
    with pytest.raises(NotReady):
        bench.restart_broker(state_dir, outage_seconds=0)
    bench.down(state_dir)
    assert broker.state() == "running"


def test_unreachable_foreign_cluster_is_not_ready(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that nobody answers for is named in the message."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")

    with pytest.raises(NotReady, match=r"127\.0\.0\.1:9"):
        bench.up(state_dir, attached=False, on_progress=_ignore)

    assert _marked(state_dir) == []


def _ignore(_line: str) -> None:
    """Take progress and show nothing."""


def _part(state_dir: Path, name: str) -> bench_status.PartStatus:
    return next(part for part in bench.status(state_dir).parts if part.name == name)


def _marked(state_dir: Path) -> list[int]:
    """Return the live processes that carry the mark of this state folder's supervisor."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK_VARIABLE) == str(state_dir) and is_alive(process.pid):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def _await_no_process(state_dir: Path) -> None:
    """Wait for the end of what carries the mark: a killed process takes its time to end."""
    eventually(lambda: _marked(state_dir) == [], "the end of all processes")


def _supervisors(state_dir: Path) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if "lagbench.embedded.supervisor" in (process.info["cmdline"] or [])
        and str(state_dir) in process.info["cmdline"]
    ]
