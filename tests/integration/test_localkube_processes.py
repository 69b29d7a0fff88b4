"""Signals to the processes of a pod: localkube's own subresource."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.eventually import eventually
from tests.integration.localkube_process import LocalkubeProcess
from tests.integration.pod_manifests import FOREVER, NAMESPACE, deployment

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import HAD_REPLICAS, bring_back, set_aside
from localkube.node.container_process import ContainerStarter
from localkube.node.pod_environment import LaunchPlan
from localkube.processes import GroupReaper
from localkube.warm_start.client import ForkedProcess, WarmInterpreter

pytestmark = pytest.mark.slow

STOP_SECONDS = 8  # longer than the machine holds up the one who looks


@pytest.fixture
def kube(localkube: LocalkubeProcess) -> Iterator[Kube]:
    """Provide a client of its default namespace."""
    client = Kube.from_kubeconfig(localkube.kubeconfig)
    client.namespace = NAMESPACE
    yield client
    client.close()


def running_pod(kube: Kube, name: str, replicas: int = 1) -> Callable[[], dict[str, Any]]:
    """Start a Deployment and return how to read its first pod, which runs."""
    kube.apply(deployment(name, replicas, FOREVER))

    def pod() -> dict[str, Any]:
        return kube.list("Pod", label_selector=f"app={name}")[0]

    eventually(lambda: kube.list("Pod", label_selector=f"app={name}"), "the pod")
    eventually(lambda: pid_of(pod()) is not None, "its process")
    return pod


def pid_of(pod: dict[str, Any]) -> int | None:
    """Return the number of the pod's process; None: it has none."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if "running" in status["state"]:
            return int(status["containerID"].removeprefix("process://"))
    return None


def test_a_stop_ends_without_its_sender(kube: Kube) -> None:
    """A player that was killed undoes nothing: after the time localkube lets the pod continue."""
    pod = running_pod(kube, "left")
    process = psutil.Process(pid_of(pod()))

    kube.signal_pod(pod()["metadata"]["name"], "SIGSTOP", seconds=STOP_SECONDS)

    eventually(
        lambda: process.status() == psutil.STATUS_STOPPED, "the stop", within_seconds=STOP_SECONDS
    )
    eventually(lambda: process.status() != psutil.STATUS_STOPPED, "the end of the stop")
    kube.delete("Deployment", "left")


def test_a_stopped_pod_can_shut_down(kube: Kube, tmp_path: Path) -> None:
    """A deletion lets it continue first: it sees SIGTERM, and needs no SIGKILL."""
    noted = tmp_path / "sigterm"
    script = (
        "import pathlib, signal, sys\n"
        "def end(*_):\n"
        f"    pathlib.Path({str(noted)!r}).touch()\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('listening', flush=True)\n"
        "while True: signal.pause()"
    )
    manifest = deployment("ends", 1, script)
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30
    kube.apply(manifest)
    pod = eventually(lambda: kube.list("Pod", label_selector="app=ends"), "the pod")[0]
    name = pod["metadata"]["name"]
    eventually(lambda: "listening" in kube.pod_logs(name), "its handler")
    kube.signal_pod(name, "SIGSTOP", seconds=60)

    kube.delete("Deployment", "ends")

    eventually(noted.exists, "the pod's own end")


def test_a_deployment_comes_back_from_its_own_note(kube: Kube) -> None:
    """Whoever set it aside need not survive: another client brings the replicas back."""
    running_pod(kube, "aside", replicas=2)

    set_aside(kube, "aside")
    set_aside(kube, "aside")  # a second one does not forget the first one's note
    assert kube.list("Pod", label_selector="app=aside") == []

    manifest = kube.get("Deployment", "aside") or {}
    assert manifest["metadata"]["annotations"][HAD_REPLICAS] == "2"
    assert bring_back(kube, "aside")
    assert len(kube.list("Pod", label_selector="app=aside")) == 2
    assert not bring_back(kube, "aside")
    kube.delete("Deployment", "aside")


COMMAND = [sys.executable, "-c", "import signal; signal.pause()"]


class Warm:
    """A warm interpreter whose fork waits for its release, as long as it holds its end."""

    def __init__(self) -> None:
        """Have one fork."""
        listens, self.go = os.pipe()
        self._pid = os.posix_spawn(sys.executable, COMMAND, os.environ, setsid=True)
        os.close(listens)

    async def fork(self, plan: LaunchPlan, log: int) -> ForkedProcess:
        """Return it."""
        return ForkedProcess(self._pid, self.go)


def start_that_fails(folder: Path, warm: Any, reaper: GroupReaper) -> None:
    """Start a container that cannot be watched."""
    plan = LaunchPlan(COMMAND, dict(os.environ), folder)
    starter = ContainerStarter(reaper, warm)

    async def start() -> None:
        await starter.start(plan, folder / "main.log", asyncio.Event())

    with pytest.raises(OSError, match="too many"):
        asyncio.run(start())


@pytest.mark.parametrize("is_forked", [False, True])
def test_a_process_that_cannot_be_watched_is_killed(
    is_forked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start fails, and is tried again: each attempt must leave no process and no descriptor."""
    started: list[psutil.Process] = []

    def refuse(pid: int) -> int:
        started.append(psutil.Process(pid))
        raise OSError("too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    reaper = GroupReaper()
    warm = Warm() if is_forked else WarmInterpreter(tmp_path / "warm.log", {}, reaper)
    try:
        start_that_fails(tmp_path, warm, reaper)
        assert [process.is_running() for process in started] == [False]
        assert reaper.watched == set()
        if isinstance(warm, Warm):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(warm.go)
    finally:
        reaper.close()
        for process in started:
            if process.is_running():
                process.kill()
                process.wait()
