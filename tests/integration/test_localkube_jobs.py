"""Jobs on localkube: completions, retries, deadlines, their end."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.eventually import eventually
from tests.integration.localkube_process import LocalkubeProcess
from tests.integration.pod_manifests import FOREVER, NAMESPACE, deployment, job

pytestmark = pytest.mark.slow


@pytest.fixture
def kind(localkube: LocalkubeProcess) -> Callable[[str, str], Any]:
    """Provide the client's handles of kinds."""
    client = localkube.client()
    return lambda version, name: client.resources.get(api_version=version, kind=name)


def job_condition(kind: Callable[[str, str], Any], name: str) -> tuple[str, str] | None:
    """Return the type and reason of a finished job's condition."""
    status = kind("batch/v1", "Job").get(name=name, namespace=NAMESPACE).status
    for entry in status.conditions or ():
        if entry.status == "True":
            return entry.type, entry.reason
    return None


def test_a_job_runs_all_its_completions(kind: Callable[[str, str], Any]) -> None:
    """Three completions at parallelism two run three pods."""
    jobs = kind("batch/v1", "Job")
    jobs.create(body=job("three", "pass", completions=3, parallelism=2), namespace=NAMESPACE)

    outcome = eventually(lambda: job_condition(kind, "three"), "the end of the job")

    assert outcome == ("Complete", "CompletionsReached")
    assert jobs.get(name="three", namespace=NAMESPACE).status.succeeded == 3


def test_a_job_fails_at_its_backoff_limit(kind: Callable[[str, str], Any]) -> None:
    """A failing pod with backoffLimit 0 fails the job; its failure is counted."""
    jobs = kind("batch/v1", "Job")
    jobs.create(body=job("fails", "raise SystemExit(2)", backoffLimit=0), namespace=NAMESPACE)

    outcome = eventually(lambda: job_condition(kind, "fails"), "the end of the job")

    assert outcome == ("Failed", "BackoffLimitExceeded")
    assert jobs.get(name="fails", namespace=NAMESPACE).status.failed == 1


def test_a_job_that_takes_too_long_is_ended(kind: Callable[[str, str], Any]) -> None:
    """ActiveDeadlineSeconds ends the pods and fails the job."""
    body = job("slow", FOREVER, activeDeadlineSeconds=1)
    kind("batch/v1", "Job").create(body=body, namespace=NAMESPACE)

    outcome = eventually(lambda: job_condition(kind, "slow"), "the end of the job")

    assert outcome == ("Failed", "DeadlineExceeded")


def test_a_finished_job_goes_after_its_time_to_live(kind: Callable[[str, str], Any]) -> None:
    """TtlSecondsAfterFinished 0 deletes the job and its pods when it is complete."""
    jobs = kind("batch/v1", "Job")
    jobs.create(body=job("short", "pass", ttlSecondsAfterFinished=0), namespace=NAMESPACE)

    eventually(
        lambda: not jobs.get(namespace=NAMESPACE, field_selector="metadata.name=short").items,
        "the end of the job",
    )


# A pod that writes its host name and pid, and on SIGTERM when it began to stop and when it ended:
# half a second later, or when the file of its first argument is there.
STAMPS = (
    "import os, signal, sys, time\n"
    "def stop(*_):\n"
    "    print('stopping', time.monotonic_ns(), flush=True); time.sleep(0.5)\n"
    "    while sys.argv[1:] and not os.path.exists(sys.argv[1]): time.sleep(0.05)\n"
    "    print('ended', time.monotonic_ns(), flush=True); sys.exit(0)\n"
    "signal.signal(signal.SIGTERM, stop)\n"
    "print('up', os.environ['HOSTNAME'], os.getpid(), flush=True)\n"
    "while True: signal.pause()"
)


def stateful_set(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    """Return the manifest of a StatefulSet whose pods write what happens to them."""
    manifest = deployment(name, replicas, STAMPS)
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 300
    return {**manifest, "kind": "StatefulSet", "spec": {**manifest["spec"], **spec}}


def start(localkube: LocalkubeProcess, manifest: dict[str, Any]) -> Any:
    """Create the StatefulSet, wait for its pods, return the handle of the kind."""
    kind = localkube.client().resources.get(api_version="apps/v1", kind="StatefulSet")
    kind.create(body=manifest, namespace=NAMESPACE)
    name, replicas = manifest["metadata"]["name"], manifest["spec"]["replicas"]
    eventually(
        lambda: all(lines(localkube, f"{name}-{n}", "up") for n in range(replicas)), "all pods up"
    )
    return kind


def lines(localkube: LocalkubeProcess, pod: str, word: str) -> list[list[str]]:
    """Return the lines of a pod's log that begin with ``word``, split."""
    path = localkube.state_dir / "pods" / f"{NAMESPACE}_{pod}" / "main.log"
    text = path.read_text() if path.exists() else ""
    return [line.split() for line in text.splitlines() if line.startswith(word)]


def stamp(localkube: LocalkubeProcess, pod: str, word: str) -> int:
    """Return the instant (monotonic ns) of a pod's only line that begins with ``word``."""
    found = eventually(lambda: lines(localkube, pod, word), f"{word} of {pod}")
    assert len(found) == 1
    return int(found[0][1])


def test_a_killed_process_and_a_deleted_pod_come_back_as_the_same(
    localkube: LocalkubeProcess,
) -> None:
    """After SIGKILL it is the same pod; after a deletion another one of the same host name."""
    start(localkube, stateful_set("twin", 2, podManagementPolicy="Parallel"))
    pods = localkube.client().resources.get(api_version="v1", kind="Pod")
    before = pods.get(name="twin-1", namespace=NAMESPACE).metadata.uid

    psutil.Process(int(lines(localkube, "twin-1", "up")[0][2])).send_signal(signal.SIGKILL)
    eventually(lambda: len(lines(localkube, "twin-1", "up")) == 2, "the restart in place")
    restarted = pods.get(name="twin-1", namespace=NAMESPACE).metadata.uid
    pods.delete(name="twin-1", namespace=NAMESPACE)
    eventually(lambda: len(lines(localkube, "twin-1", "up")) == 3, "the pod that replaces it")

    assert restarted == before
    assert pods.get(name="twin-1", namespace=NAMESPACE).metadata.uid != before
    assert [found[1] for found in lines(localkube, "twin-1", "up")] == ["twin-1"] * 3
    assert len(lines(localkube, "twin-0", "up")) == 1


def test_kubectl_works(localkube: LocalkubeProcess, tmp_path: Path) -> None:
    """Kubectl applies, lists, scales, rolls out and back, and deletes a StatefulSet."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on this machine")
    manifest = tmp_path / "shown.yaml"
    document = stateful_set("shown", 2, podManagementPolicy="Parallel")

    def run(*arguments: str) -> str:
        command = [kubectl, f"--kubeconfig={localkube.kubeconfig}", *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def apply() -> str:
        manifest.write_text(yaml.safe_dump(document))
        return run("apply", "-f", str(manifest))

    assert "created" in apply()
    assert "unchanged" in apply()
    assert "complete: 2 new pods" in run("rollout", "status", "sts/shown", "--timeout=120s")
    assert "2/2" in run("get", "sts", "shown")
    document["spec"]["template"]["metadata"]["annotations"] = {"changed": "yes"}
    apply()
    run("rollout", "status", "sts/shown", "--timeout=120s")
    history = run("rollout", "history", "sts/shown")
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    run("rollout", "undo", "sts/shown")
    run("rollout", "status", "sts/shown", "--timeout=120s")
    assert "changed" not in run("get", "pod", "shown-0", "-o", "jsonpath={.metadata.annotations}")
    assert "scaled" in run("scale", "sts/shown", "--replicas=3")
    assert "SuccessfulCreate" in run("describe", "sts", "shown")
    assert "deleted" in run("delete", "-f", str(manifest), "--grace-period=1")
