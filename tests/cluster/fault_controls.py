"""Cause faults of a run's pods: evicted, deleted, drained off their node."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from kubernetes import client, config

from lagbench.core.scenario.run_names import (
    CONSUMER_DEPLOYMENT,
    LAG_SCALER,
    NAMESPACE,
    RUN_ID_LABEL,
)
from tests.cluster.cluster_rehearsal import kubectl
from tests.cluster.rig.node import NODE
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually

_DRAIN_LIMIT_SECONDS = 300
# kubectl's words for the API server's 429: the budget allows no further eviction now.
_HELD_BY_BUDGET = "disruption budget"


@dataclass
class PodFaults:
    """Faults of the run's pods, seen from outside."""

    rig: Rig

    def __post_init__(self) -> None:
        """Connect as the administrator."""
        api = config.new_client_from_config(str(self.rig.kubeconfig))
        self._core = client.CoreV1Api(api)

    def ready(self, workload: str) -> list[str]:
        """Return the Ready pods of a Deployment that nobody has asked to go, oldest first."""
        selector = f"app.kubernetes.io/name={workload}"
        found = self._core.list_namespaced_pod(NAMESPACE, label_selector=selector).items
        found.sort(key=lambda pod: pod.metadata.creation_timestamp)
        return [
            str(pod.metadata.name)
            for pod in found
            if pod.metadata.deletion_timestamp is None
            and any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or [])
        ]

    def evict_consumer(self) -> str:
        """Evict the oldest consumer through the Eviction API, as a drain does; returns its name.

        The disruption budget may hold it up while others are not Ready yet.
        """
        victim = self.ready(CONSUMER_DEPLOYMENT)[0]
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=victim, namespace=NAMESPACE))

        def is_let() -> bool:
            try:
                self._core.create_namespaced_pod_eviction(victim, NAMESPACE, eviction)
            except client.ApiException as error:
                if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
                return False
            return True

        eventually(is_let, "the budget allows an eviction")
        return victim

    def restarts(self) -> dict[str, int]:
        """Return how often the containers of each of the run's pods ended and were restarted."""
        found = self._core.list_namespaced_pod(NAMESPACE, label_selector=RUN_ID_LABEL).items
        return {
            str(pod.metadata.name): sum(c.restart_count for c in pod.status.container_statuses)
            for pod in found
            if pod.status.container_statuses
        }

    def restart_lag_scaler(self) -> str:
        """Delete the lag scaler's pod and wait for the next one; returns the old one's name."""
        (old,) = self.ready(LAG_SCALER)
        self._core.delete_namespaced_pod(old, NAMESPACE)
        eventually(lambda: self.ready(LAG_SCALER) not in ([], [old]), "a new scaler")
        return old

    def drain_node(self) -> set[str]:
        """Drain the only node and give it back while the drain continues; returns who had to go.

        The producer is left out: it is no part of what an autoscaler scales, and without it there
        is no spike. The node is given back once the budget has stopped the drain: there is no
        other node, so what was evicted waits for this one.
        """
        before = set(self.ready(CONSUMER_DEPLOYMENT))
        with _draining(self.rig) as drain:
            # With one consumer the budget stops nobody: its pod goes at once.
            if len(before) > 1:
                drain.await_line(_HELD_BY_BUDGET)
            kubectl(self.rig, "uncordon", NODE)
            drain.await_end()
        return before - set(self.ready(CONSUMER_DEPLOYMENT))


class _Drain:
    """A running ``kubectl drain`` whose lines are read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def await_line(self, part: str) -> None:
        """Wait until kubectl has said it."""
        eventually(
            lambda: any(part in line for line in self._lines) or self._process.poll() is not None,
            part,
            within_seconds=_DRAIN_LIMIT_SECONDS,
        )

    def await_end(self) -> None:
        """Wait until every pod that was to go is gone."""
        code = self._process.wait(timeout=_DRAIN_LIMIT_SECONDS)
        self._reader.join(timeout=60)
        assert code == 0, "".join(self._lines)

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._lines.extend(iter(self._process.stdout.readline, ""))


@contextmanager
def _draining(rig: Rig) -> Iterator[_Drain]:
    command = [rig.kubectl, "--kubeconfig", str(rig.kubeconfig), "drain", NODE]
    command += ["--ignore-daemonsets", "--delete-emptydir-data"]
    command += ["--pod-selector=app.kubernetes.io/name!=producer"]
    process = subprocess.Popen(
        [*command, f"--timeout={_DRAIN_LIMIT_SECONDS}s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield _Drain(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(timeout=60)
        kubectl(rig, "uncordon", NODE)
