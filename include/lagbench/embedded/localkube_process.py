"""Run localkube as a child process, and the autoscaler in it as a pod."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import yaml

from lagbench.adapters.kube.cluster_check import base_objects
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.process.processes import CONTROL_PLANE, start_tied
from lagbench.core.scenario.run_names import AUTOSCALER_DEPLOYMENT, AUTOSCALER_NAMESPACE, NAMESPACE
from lagbench.embedded.bench_state import BenchFiles
from lagbench.embedded.child_server import ChildServer
from lagbench.errors import NotReady

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
        command = [sys.executable, "-m", "lagbench.localkube", "--state-dir", str(files.localkube)]
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
