"""The hand-rolled controller on a real cluster: it drives what KEDA has let go of, no more."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from lagbench.adapters.kube.kube import Kube
from lagbench.core.keda.loop.keda_hpa import CONTROLLER, SCALED_BY
from lagbench.core.keda.object.scaled_object_spec import PAUSED
from lagbench.embedded.broker import Broker
from lagbench.errors import ExitCode
from lagbench.project import PROJECT_ROOT
from localkube.processes import end_process, start_tied
from tests.cluster.lagging_group import idle_consumers, scaled_object
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually
from tests.integration.autoscaler_setting import LagControl

NAMESPACE, TARGET, PARTITIONS, THRESHOLD = "lagbench-handover", "orders", 8, 10
MARKS = {SCALED_BY: CONTROLLER, PAUSED: "true"}
SYNC = "--hpa-sync-seconds=1"


@pytest.fixture(scope="module")
def lag(rig_broker: Broker) -> LagControl:
    """Provide a group whose lag a test sets."""
    control = LagControl(rig_broker.bootstrap_servers, "handover", "handover", PARTITIONS)
    control.prepare()
    return control


@pytest.fixture(scope="module")
def namespace(rig: Rig) -> Iterator[Kube]:
    """Provide a client of a namespace that goes with the module."""
    kube = Kube.from_kubeconfig(str(rig.kubeconfig), namespace=NAMESPACE)
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield kube
    kube.delete("Namespace", NAMESPACE)
    kube.close()


@pytest.fixture
def kube(rig: Rig, namespace: Kube, lag: LagControl) -> Iterator[Kube]:
    """Provide the namespace with one pod of a Deployment, and no lag."""
    lag.set_lag(0)
    namespace.apply(idle_consumers(NAMESPACE, 1, name=TARGET))
    yield namespace
    with_gone = namespace.get("ScaledObject", TARGET)
    if with_gone:
        namespace.delete("ScaledObject", TARGET)
        # A KEDA that has just come back takes its time to take its finalizer off.
        eventually(
            lambda: namespace.get("ScaledObject", TARGET) is None,
            "its deletion",
        )
    namespace.delete("Deployment", TARGET)


@pytest.fixture
def apps(rig: Rig) -> client.AppsV1Api:
    """Provide the API of Deployments."""
    return client.AppsV1Api(config.new_client_from_config(str(rig.kubeconfig)))


@pytest.mark.usefixtures("program_image")
def test_its_pod_scales_while_keda_runs_and_keeps_off(
    rig: Rig, kube: Kube, apps: client.AppsV1Api, lag: LagControl, tmp_path: Path
) -> None:
    """With the rights of its manifests: 40 records of lag give 4 pods, 44 too, 45 give 5, 0 one."""
    kube.apply(policy(lag, MARKS))
    for item in rendered(rig, tmp_path):
        kube.apply(item)
    try:
        lag.set_lag(4 * THRESHOLD)
        eventually(lambda: pods(apps) == (4, 4), "4 pods")
        within_tolerance = held_at(4, apps, lag, 44)
        lag.set_lag(45)
        eventually(lambda: pods(apps) == (5, 5), "5 pods")
        lag.set_lag(0)
        eventually(lambda: pods(apps) == (1, 1), "1 pod")
        log = kube.pod_logs(kube.list("Pod", label_selector=SELECTOR)[0]["metadata"]["name"])
        conditions = conditions_of(kube)
        events = kube.list("Event")
    finally:
        kube.delete("Deployment", CONTROLLER)

    assert within_tolerance
    assert kube.list("HorizontalPodAutoscaler") == []
    assert (conditions["Ready"], conditions["Paused"]) == ("True", "True")
    reasons = {
        (e["reason"], e["source"].get("component"), e["involvedObject"]["kind"]) for e in events
    }
    assert ("SuccessfulRescale", CONTROLLER, "ScaledObject") in reasons
    assert "forbidden" not in log


def test_it_ends_when_keda_is_let_back_in(
    rig: Rig, kube: Kube, lag: LagControl, tmp_path: Path
) -> None:
    """The pause goes while the mark stays: exit code 3 and the way out; KEDA has its HPA again."""
    kube.apply(policy(lag, MARKS))
    running = started(rig, tmp_path)
    eventually(lambda: conditions_of(kube).get("Ready") == "True", "Ready")

    kube.apply(policy(lag, {SCALED_BY: CONTROLLER}))

    code, said = ended(running, tmp_path)
    assert code == ExitCode.NOT_READY
    assert 'autoscaling.keda.sh/paused: "true"' in said
    eventually(lambda: kube.list("HorizontalPodAutoscaler"), "KEDA's HPA")


def test_it_works_without_keda_once_its_hpa_is_gone(
    rig: Rig, kube: Kube, apps: client.AppsV1Api, lag: LagControl, tmp_path: Path
) -> None:
    """An HPA that a stopped KEDA left is rejected by its name; without it the lag decides."""
    kube.apply(policy(lag, {}))
    eventually(lambda: kube.list("HorizontalPodAutoscaler"), "KEDA's HPA")
    with rig.without_keda():
        kube.apply(policy(lag, MARKS))
        refused = ended(started(rig, tmp_path), tmp_path)
        kube.delete("HorizontalPodAutoscaler", f"keda-hpa-{TARGET}")
        running = started(rig, tmp_path)
        lag.set_lag(3 * THRESHOLD)
        eventually(lambda: pods(apps) == (3, 3), "3 pods")
        end_process(running.pid, grace_seconds=5)

    assert refused[0] == ExitCode.NOT_READY
    assert f"HPA keda-hpa-{TARGET} " in refused[1]


SELECTOR = f"app.kubernetes.io/name={CONTROLLER}"


def pods(apps: client.AppsV1Api) -> tuple[int, int]:
    """Return the pods that are wanted and those that are ready."""
    found = apps.read_namespaced_deployment(TARGET, NAMESPACE)
    return int(found.spec.replicas), int(found.status.ready_replicas or 0)


def held_at(count: int, apps: client.AppsV1Api, lag: LagControl, records: int) -> bool:
    """Return whether the wish stays at ``count`` through five syncs of one second at that lag."""
    lag.set_lag(records)
    gives_up_at = time.monotonic() + 6
    while time.monotonic() < gives_up_at:
        if pods(apps)[0] != count:
            return False
        time.sleep(0.2)
    return True


def conditions_of(kube: Kube) -> dict[str, str]:
    """Return the conditions of the ScaledObject."""
    status = (kube.get("ScaledObject", TARGET) or {}).get("status") or {}
    return {c["type"]: c["status"] for c in status.get("conditions") or ()}


def rendered(rig: Rig, folder: Path) -> list[dict[str, Any]]:
    """Return the controller's manifests for the namespace of the tests, with quick syncs."""
    shutil.copytree(PROJECT_ROOT / "k8s" / "base", folder / "base")
    path = folder / "base" / "autoscaler-instead-of-keda" / "kustomization.yaml"
    path.write_text(path.read_text().replace("namespace: lagbench", f"namespace: {NAMESPACE}"))
    path.write_text(
        path.read_text().replace(
            "--namespace=lagbench", f"--namespace={NAMESPACE}\n          - {SYNC}"
        )
    )
    done = subprocess.run(
        [rig.kubectl, "kustomize", str(path.parent)], check=True, capture_output=True, timeout=180
    )
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def started(rig: Rig, folder: Path) -> subprocess.Popen[bytes]:
    """Start the controller as a process beside the cluster."""
    command = [sys.executable, "-m", "lagbench.programs.autoscaler", "--instead-of-keda"]
    command += ["--kubeconfig", str(rig.kubeconfig), "--namespace", NAMESPACE, SYNC]
    with (folder / "controller.log").open("wb") as log:
        return start_tied(command, log=log)


def ended(
    process: subprocess.Popen[bytes], folder: Path, *, within_seconds: float = 180.0
) -> tuple[int, str]:
    """Return the exit code and what the last line of the log says."""
    code = process.wait(timeout=within_seconds)
    last = (folder / "controller.log").read_text(encoding="utf-8").splitlines()[-1]
    return code, str(json.loads(last)["event"])


def policy(lag: LagControl, annotations: dict[str, str]) -> dict[str, Any]:
    """Return a ScaledObject that moves in one step both ways."""
    metadata = {
        "bootstrapServers": lag.bootstrap_servers,
        "topic": lag.topic,
        "consumerGroup": lag.group,
        "lagThreshold": str(THRESHOLD),
    }
    trigger = {"type": "kafka", "metadata": metadata}
    found = scaled_object(NAMESPACE, TARGET, trigger, at_once=1, maxReplicaCount=PARTITIONS)
    found["metadata"]["annotations"] = annotations
    return found
