"""Run localkube as a child process, and the autoscaler in it as a pod."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.process.process_priority import CONTROL_PLANE
from lagbench.adapters.process.processes import end_process, start_tied
from lagbench.core.scenario import AUTOSCALER_DEPLOYMENT, AUTOSCALER_NAMESPACE, NAMESPACE
from lagbench.embedded.bench_state import BenchFiles, PartState
from lagbench.errors import NotReady

_SERVE_TIMEOUT_SECONDS = 60.0
_READY_TIMEOUT_SECONDS = 60.0
# A pod has 30 s by Kubernetes' default to end after SIGTERM; localkube then kills it.
_STOP_GRACE_SECONDS = 40.0
_LOG_TAIL_LINES = 15


class LocalkubeProcess:
    """One localkube below the bench's state folder."""

    def __init__(self, files: BenchFiles) -> None:
        """Keep the paths; nothing runs yet."""
        self._files = files
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id after the launch."""
        return self._process.pid if self._process is not None else None

    def state(self) -> PartState:
        """Return whether it runs, was stopped, or ended by itself."""
        if self._process is None:
            return "stopped"
        return "running" if self._process.poll() is None else "died"

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
        command = [sys.executable, "-m", "lagbench.localkube"]
        command += ["--state-dir", str(self._files.localkube)]
        with self._files.localkube_log.open("ab") as log:
            self._process = start_tied(command, log=log, env=env, niceness=CONTROL_PLANE)

    def await_serving(self, *, timeout_seconds: float = _SERVE_TIMEOUT_SECONDS) -> None:
        """Return when the API answers; it writes its state after the kubeconfig, when it serves."""
        if self._process is None:
            raise NotReady("localkube was not launched")
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            if self._files.localkube_state.is_file():
                return
            try:  # the end of the process is the only event available meanwhile
                code = self._process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            raise NotReady(f"localkube ended with code {code} while starting:\n{self._tail()}")
        raise NotReady(
            f"localkube did not serve within {timeout_seconds:.0f} s; its last output:\n"
            f"{self._tail()}"
        )

    def stop(self) -> None:
        """Stop it and thereby its pods; no effect if it does not run."""
        if self._process is None:
            return
        end_process(self._process.pid, grace_seconds=_STOP_GRACE_SECONDS)
        self._process.wait(timeout=10)
        self._process = None

    def url(self) -> str:
        """Return the API server's address from the kubeconfig."""
        config = yaml.safe_load(self._files.kubeconfig.read_text(encoding="utf-8"))
        return str(config["clusters"][0]["cluster"]["server"])

    def _tail(self) -> str:
        log = self._files.localkube_log
        if not log.is_file():
            return "  | (no log)"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  | {line}" for line in lines[-_LOG_TAIL_LINES:])


def install_autoscaler(kubeconfig: Path, manifests: Path) -> None:
    """Apply the autoscaler's manifests and return when its pod is ready."""
    documents = _documents(manifests)
    kube = Kube.from_kubeconfig(kubeconfig)
    try:
        for name in (NAMESPACE, AUTOSCALER_NAMESPACE):
            kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for document in documents:
            kube.namespace = document["metadata"].get("namespace", AUTOSCALER_NAMESPACE)
            kube.apply(document)
        kube.namespace = AUTOSCALER_NAMESPACE
        kube.wait_until(
            lambda api: ready_replicas(api.get("Deployment", AUTOSCALER_DEPLOYMENT)) >= 1,
            timeout_seconds=_READY_TIMEOUT_SECONDS,
            what=f"the autoscaler's pod (Deployment {AUTOSCALER_DEPLOYMENT}) to be ready",
            last_seen=lambda: str(
                (kube.get("Deployment", AUTOSCALER_DEPLOYMENT) or {}).get("status")
            ),
        )
    finally:
        kube.close()


def autoscaler_is_ready(kubeconfig: Path) -> bool:
    """Return whether the autoscaler's pod is ready; False when the API does not answer."""
    try:
        kube = Kube.from_kubeconfig(kubeconfig)
    except NotReady:
        return False
    kube.namespace = AUTOSCALER_NAMESPACE
    try:
        return ready_replicas(kube.get("Deployment", AUTOSCALER_DEPLOYMENT)) >= 1
    except NotReady:
        return False
    finally:
        kube.close()


def ready_replicas(deployment: Mapping[str, Any] | None) -> int:
    """Return status.readyReplicas; Kubernetes leaves the field out when it is 0."""
    return int(((deployment or {}).get("status") or {}).get("readyReplicas") or 0)


def _documents(manifests: Path) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = []
    for path in sorted(manifests.glob("*.yaml")):
        loaded = yaml.safe_load_all(path.read_text(encoding="utf-8"))
        # A kustomization lists files for kubectl and is not an object of the API.
        documents += [part for part in loaded if part and part.get("kind") != "Kustomization"]
    if not documents:
        raise NotReady(f"no manifest of the autoscaler in {manifests}; is the checkout complete?")
    return documents
