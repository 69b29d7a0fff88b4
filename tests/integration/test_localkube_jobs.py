"""Jobs and StatefulSets on localkube, beyond what the contract asks of any API server."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.eventually import eventually
from tests.integration.localkube_process import LocalkubeProcess
from tests.integration.pod_manifests import FOREVER, NAMESPACE, deployment, job

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("script", "spec", "outcome", "counts"),
    [
        ("pass", {"completions": 3, "parallelism": 2}, "CompletionsReached", (3, 0)),
        ("raise SystemExit(2)", {"backoffLimit": 0}, "BackoffLimitExceeded", (0, 1)),
        (FOREVER, {"activeDeadlineSeconds": 1}, "DeadlineExceeded", (0, 0)),
    ],
)
def test_how_a_job_ends(
    localkube: LocalkubeProcess,
    script: str,
    spec: dict[str, Any],
    outcome: str,
    counts: tuple[int, int],
) -> None:
    """With all completions, at its backoff limit, after its deadline."""
    jobs = localkube.client().resources.get(api_version="batch/v1", kind="Job")
    name = outcome.lower()
    jobs.create(body=job(name, script, **spec), namespace=NAMESPACE)

    def status() -> Any:
        return jobs.get(name=name, namespace=NAMESPACE).status

    ended = eventually(
        lambda: [c.reason for c in status().conditions or () if c.status == "True"], "the end"
    )
    assert ended == [outcome]
    assert (status().succeeded, status().failed) == counts


def test_a_finished_job_goes_after_its_time_to_live(localkube: LocalkubeProcess) -> None:
    """TtlSecondsAfterFinished 0 deletes the job and its pods when it is complete."""
    jobs = localkube.client().resources.get(api_version="batch/v1", kind="Job")
    jobs.create(body=job("short", "pass", ttlSecondsAfterFinished=0), namespace=NAMESPACE)

    eventually(
        lambda: not jobs.get(namespace=NAMESPACE, field_selector="metadata.name=short").items,
        "the end of the job",
    )


# A pod that writes its host name and pid.
SCRIPT = (
    "import os, signal, sys\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
    "print('up', os.environ['HOSTNAME'], os.getpid(), flush=True)\n"
    "while True: signal.pause()"
)


def stateful_set(name: str) -> dict[str, Any]:
    """Return the manifest of a StatefulSet of two pods that start at once."""
    manifest = {**deployment(name, 2, SCRIPT), "kind": "StatefulSet"}
    manifest["spec"]["podManagementPolicy"] = "Parallel"
    return manifest


def test_a_killed_process_and_a_deleted_pod_come_back_as_the_same(
    localkube: LocalkubeProcess,
) -> None:
    """After SIGKILL it is the same pod; after a deletion another one of the same host name."""
    client = localkube.client()
    kind = client.resources.get(api_version="apps/v1", kind="StatefulSet")
    kind.create(body=stateful_set("twin"), namespace=NAMESPACE)
    pods = client.resources.get(api_version="v1", kind="Pod")

    def starts(number: int, of: str = "twin-1") -> list[list[str]]:
        found = [line.split() for line in localkube.log(of).splitlines()]
        return found if len(found) == number else []

    def uid() -> str:
        return str(pods.get(name="twin-1", namespace=NAMESPACE).metadata.uid)

    eventually(lambda: starts(1, "twin-0"), "the other pod")
    first, before = eventually(lambda: starts(1), "the pod")[0], uid()
    psutil.Process(int(first[2])).send_signal(signal.SIGKILL)
    eventually(lambda: starts(2), "the restart in place")
    restarted = uid()
    pods.delete(name="twin-1", namespace=NAMESPACE)
    found = eventually(lambda: starts(3), "the pod that replaces it")

    assert restarted == before != uid()
    assert [start[1] for start in found] == ["twin-1"] * 3
    assert starts(1, "twin-0")


def test_kubectl_works(localkube: LocalkubeProcess, tmp_path: Path) -> None:
    """Kubectl applies, lists, scales, rolls out and back, and deletes a StatefulSet."""
    manifest, document, run = tmp_path / "shown.yaml", stateful_set("shown"), localkube.kubectl

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
