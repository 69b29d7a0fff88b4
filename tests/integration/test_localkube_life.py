"""localkube as a process: what it writes, who may talk to it, and that it leaves nothing behind."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.eventually import eventually
from tests.integration.localkube_process import COMMAND, LocalkubeProcess, running_localkube
from tests.integration.pod_manifests import deployment

from localkube.processes import is_alive

pytestmark = pytest.mark.slow

# A pod with a child of its own; both write their pid where the test can read it.
FAMILY = (
    "import os, subprocess, sys, signal; "
    "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']); "
    "print(os.getpid(), child.pid, flush=True); signal.pause()"
)
DEFAULT_GRACE_SECONDS = 30
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True)); "
    "print('up', flush=True)\nwhile True: time.sleep(1)"
)


@pytest.fixture
def localkube(tmp_path: Path) -> Iterator[LocalkubeProcess]:
    """Provide a running localkube of its own."""
    with running_localkube(tmp_path / "state") as running:
        yield running


def start_pod(localkube: LocalkubeProcess, name: str, script: str, **spec: Any) -> str:
    """Start a pod that runs a Python script and return its first line of output."""
    container = {"name": "main", "image": "none", "command": ["python", "-c", script]}
    pods = localkube.client().resources.get(api_version="v1", kind="Pod")
    body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
    pods.create(body=body, namespace="default")
    eventually(lambda: "\n" in localkube.log(name), f"output of {name}")
    return localkube.log(name).splitlines()[0]


def warm_interpreter(localkube: LocalkubeProcess, *, times: int) -> int:
    """Return the pid of the warm interpreter once one has been warm so many times."""
    log_file = localkube.state_dir / "localkube.log"

    def pids() -> list[str]:
        found = re.findall(r"fork from pid (\d+)", log_file.read_text())
        return found if len(found) >= times else []

    return int(eventually(pids, "a warm interpreter")[-1])


def start_program(localkube: LocalkubeProcess, name: str, *flags: str) -> tuple[int, bool]:
    """Start a consumer without a broker; return its pid and whether it was forked."""
    container = {
        "name": "main",
        "image": "none",
        "command": ["python", "-m", "lagbench.programs.consumer"],
        "args": ["--run-id=none", "--bootstrap-servers=127.0.0.1:1", *flags],
        "env": [{"name": "POD_NAME", "value": name}, {"name": "PORT_METRICS", "value": "0"}],
    }
    spec = {"containers": [container], "restartPolicy": "Never"}
    resources = localkube.client().resources
    resources.get(api_version="v1", kind="Pod").create(
        body={"metadata": {"name": name}, "spec": spec}, namespace="default"
    )
    events = resources.get(api_version="v1", kind="Event")

    def started() -> list[str]:
        found = events.get(namespace="default").items
        return [e.message for e in found if e.reason == "Started" and e.involvedObject.name == name]

    message = eventually(started, f"the start of {name}")[0]
    found = re.search(r"pid (\d+)", message)
    assert found is not None
    return int(found[1]), "forked" in message


def sigcgt(status: Path) -> int:
    """Return the mask of the signals that a process handles."""
    return int(status.read_text().split("SigCgt:")[1].split()[0], 16)


def test_it_is_private_and_says_where_it_is(localkube: LocalkubeProcess) -> None:
    """The kubeconfig is 0600 with the agreed context; its one socket is on loopback."""
    document, info = yaml.safe_load(localkube.kubeconfig.read_text()), localkube.info
    sockets = psutil.Process(localkube.process.pid).net_connections(kind="inet")
    listening = [tuple(s.laddr) for s in sockets if s.status == psutil.CONN_LISTEN]

    assert localkube.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert document["current-context"] == "lagbench-embedded"
    assert info["pid"] == localkube.process.pid
    assert is_alive(info["pid"], started_at=info["started_at"])
    assert listening == [("127.0.0.1", info["port"])]


def test_kill_9_leaves_no_process(localkube: LocalkubeProcess) -> None:
    """Pods, what they started, forks and what forks them end with localkube, however it ends."""
    warm_pid = warm_interpreter(localkube, times=1)
    forked_pid, is_forked = start_program(localkube, "forked")
    assert is_forked
    assert psutil.Process(forked_pid).ppid() == localkube.process.pid
    family = [int(pid) for pid in start_pod(localkube, "family", FAMILY).split()]
    pids = [warm_pid, forked_pid, *family]
    assert all(is_alive(pid) for pid in pids)

    localkube.process.send_signal(signal.SIGKILL)

    eventually(lambda: not any(is_alive(pid) for pid in pids), "the end of all")


def test_a_killed_warm_interpreter_ends_no_pod(localkube: LocalkubeProcess) -> None:
    """Its forks run on and tell their exit code; pods are exec'd until another one is warm."""
    warm_pid = warm_interpreter(localkube, times=1)
    pid, _ = start_program(localkube, "forked")

    psutil.Process(warm_pid).kill()
    eventually(lambda: not is_alive(warm_pid), "its end")
    _, is_forked = start_program(localkube, "meanwhile")

    # Where the machine has held the test up, another one may be warm already.
    assert not is_forked or warm_interpreter(localkube, times=2) != warm_pid
    assert is_alive(pid)
    assert warm_interpreter(localkube, times=2) != warm_pid
    _, is_forked = start_program(localkube, "later")
    assert is_forked
    assert is_alive(pid)
    psutil.Process(pid).kill()
    pods = localkube.client().resources.get(api_version="v1", kind="Pod")

    def code() -> int | None:
        found = pods.get(name="forked", namespace="default").status
        ended = found.containerStatuses[0].state.terminated
        return ended.exitCode if ended else None

    assert eventually(code, "its exit code") == 128 + signal.SIGKILL


def test_what_a_pod_leaves_behind_is_waited_for(localkube: LocalkubeProcess) -> None:
    """A child in a session of its own outlives its pod; its end leaves no zombie of localkube."""
    script = (
        "import subprocess, sys; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(2)'], "
        "start_new_session=True); print(child.pid, flush=True)"
    )
    warm_interpreter(localkube, times=1)
    pid = int(start_pod(localkube, "leaves", script, restartPolicy="Never"))

    eventually(lambda: not psutil.pid_exists(pid), "its end, waited for")


def test_sigterm_in_the_start_delay_ends_a_pod_at_once(localkube: LocalkubeProcess) -> None:
    """A pod that waits to start ends by itself when it is deleted, long before both are over."""
    warm_interpreter(localkube, times=1)
    pid, _ = start_program(localkube, "waits", "--start-seconds=3600")
    status = Path(f"/proc/{pid}/status")
    caught = 1 << (signal.SIGTERM - 1)
    eventually(lambda: "SigCgt" in status.read_text() and sigcgt(status) & caught, "its handler")
    pods = localkube.client().resources.get(api_version="v1", kind="Pod")

    pods.delete(name="waits", namespace="default", body={"gracePeriodSeconds": 3600})

    eventually(lambda: not is_alive(pid), "its end")


def test_sigterm_ends_pods_gracefully_and_withdraws(localkube: LocalkubeProcess) -> None:
    """On SIGTERM pods end in their own way, localkube exits 0, and localkube.json is gone."""
    script = (
        "import signal, sys, time; "
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(0))); "
        "print('up', flush=True); signal.pause()"
    )
    start_pod(localkube, "polite", script)

    localkube.process.terminate()

    assert localkube.process.wait(timeout=120) == 0
    assert localkube.log("polite") == "up\nbye\n"
    assert not (localkube.state_dir / "localkube.json").exists()


def test_ignored_sigterm_becomes_sigkill_after_the_grace_period(
    localkube: LocalkubeProcess,
) -> None:
    """A pod that ignores SIGTERM is killed when its grace period has ended, not before."""
    start_pod(localkube, "stubborn", STUBBORN, terminationGracePeriodSeconds=1)
    pods = localkube.client().resources.get(api_version="v1", kind="Pod")
    version = pods.get(namespace="default").metadata.resourceVersion
    deleted_at = time.monotonic()

    pods.delete(name="stubborn", namespace="default")
    codes = []
    for event in pods.watch(namespace="default", resource_version=version, timeout=120):
        statuses = event["object"].status.containerStatuses or ()
        codes += [s.state.terminated.exitCode for s in statuses if s.state.terminated]
        if event["type"] == "DELETED":
            break

    assert 1.0 <= time.monotonic() - deleted_at < DEFAULT_GRACE_SECONDS
    assert set(codes) == {128 + signal.SIGKILL}


def test_a_second_signal_does_not_wait_for_the_grace_period(localkube: LocalkubeProcess) -> None:
    """A second SIGTERM kills what has not ended yet."""
    start_pod(localkube, "stubborn", STUBBORN, terminationGracePeriodSeconds=60)
    localkube.process.terminate()
    # Two signals at once are one: the second comes when the first has had its effect.
    eventually(lambda: "asked" in localkube.log("stubborn"), "the pod's SIGTERM")
    asked_at = time.monotonic()
    assert localkube.process.poll() is None

    localkube.process.terminate()

    assert localkube.process.wait(timeout=120) == 0
    assert time.monotonic() - asked_at < 45  # of the 60 s


def test_what_somebody_else_has_is_exit_3(localkube: LocalkubeProcess, tmp_path: Path) -> None:
    """A taken port, and a folder that a live localkube owns, are named; that one runs on."""
    port = localkube.info["port"]
    for arguments, words in (
        (("--state-dir", str(tmp_path / "other"), "--port", str(port)), f"127.0.0.1:{port}"),
        (("--state-dir", str(localkube.state_dir)), f"pid {localkube.process.pid}"),
    ):
        ended = subprocess.run(
            [*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False
        )
        assert ended.returncode == 3
        assert words in ended.stderr
    assert localkube.client().version["kubernetes"]["major"] == "1"


def test_a_restart_is_empty_and_yet_the_same_cluster_to_its_clients(tmp_path: Path) -> None:
    """After a SIGKILL the old kubeconfig reaches it; versions count on and the logs stay."""
    with running_localkube(tmp_path) as first:
        start_pod(first, "old", "print('kept')", restartPolicy="Never")
        pods = first.client().resources.get(api_version="v1", kind="Pod")
        before = int(pods.get(namespace="default").metadata.resourceVersion)
        kubeconfig = first.kubeconfig.read_bytes()
        first.process.kill()
        first.process.wait(timeout=10)
        (tmp_path / "localkube.json").unlink()

    with running_localkube(tmp_path) as second:
        assert second.kubeconfig.read_bytes() == kubeconfig
        found = pods.get(namespace="default")

    assert found.items == []
    assert int(found.metadata.resourceVersion) > before
    assert second.log("old") == "kept\n"


def test_a_port_that_was_lost_is_no_reason_not_to_start(tmp_path: Path) -> None:
    """Somebody else has the last port by now: localkube takes another one and says so."""
    with running_localkube(tmp_path) as first:
        port = first.info["port"]

    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with running_localkube(tmp_path) as second:
            assert second.info["port"] != port
            assert second.client().version["kubernetes"]["major"] == "1"
    assert re.search(f"port {port} .* taken", (tmp_path / "localkube.log").read_text())


def test_kubectl_works(localkube: LocalkubeProcess, tmp_path: Path) -> None:
    """Kubectl can apply, get, scale, read logs and delete."""
    script = "print('hello', flush=True); import signal; signal.pause()"
    manifest = tmp_path / "web.yaml"
    manifest.write_text(yaml.safe_dump(deployment("web", 1, script)))
    run, file = localkube.kubectl, f"-f={manifest}"

    assert "created" in run("apply", file)
    assert "unchanged" in run("apply", file)
    assert "scaled" in run("scale", "deployment/web", "--replicas=2")
    assert "successfully rolled out" in run("rollout", "status", "deployment/web", "--timeout=120s")
    assert "2/2" in run("get", "deployments")
    assert run("logs", "deployment/web").endswith("hello\n")
    assert "ScalingReplicaSet" in run("describe", "deployment", "web")
    assert "serverside-applied" in run("apply", "--server-side", "--force-conflicts", file)
    assert "deleted" in run("delete", file, "--grace-period=1")
