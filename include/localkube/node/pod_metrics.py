"""Serve metrics.k8s.io for the pods: CPU and memory, from the kernel's process table."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from localkube.kinds import POD_METRICS
from localkube.kube_objects import KubeObject, not_found, rfc3339
from localkube.node.pod_worker import PodWorker

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# A metrics server scrapes every 15 s. localkube samples more often, so that a figure covers at most
# 15 s and at least 1 s (100 ticks: a resolution of 1 % of a core).
_SAMPLE_SECONDS = 5.0
_LONGEST_WINDOW_SECONDS = 15.0
_SHORTEST_WINDOW_SECONDS = 1.0


class Usage(NamedTuple):
    """CPU seconds consumed so far and resident memory of one container's processes."""

    cpu_seconds: float
    memory_bytes: int


def read_sessions(proc: Path = Path("/proc")) -> dict[int, Usage]:
    """Return the usage per session id.

    One pass reads ``stat`` of all processes. With psutil, the children of 24 pods would need 24
    walks of the table. A child's time moves to its parent when the parent waits for it.
    """
    found: dict[int, Usage] = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_bytes()
        except OSError:  # ended meanwhile
            continue
        fields = text[text.rindex(b")") + 2 :].split()  # the command may contain blanks
        session = int(fields[3])
        ticks = sum(int(field) for field in fields[11:15])
        before = found.get(session, Usage(0.0, 0))
        found[session] = Usage(
            before.cpu_seconds + ticks / _TICKS_PER_SECOND,
            before.memory_bytes + int(fields[21]) * _PAGE_BYTES,
        )
    return found


class PodMetrics:
    """Samples the pods' usage and returns rates over the last seconds."""

    def __init__(
        self, workers: Callable[[], list[PodWorker]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Sample the pods of ``workers``."""
        self._workers, self._clock = workers, clock
        self._samples: deque[tuple[float, dict[int, Usage]]] = deque()

    async def keep_sampling(self) -> None:
        """Take a sample every few seconds while there are pods."""
        while True:
            if self._workers():
                self._sample()
            await asyncio.sleep(_SAMPLE_SECONDS)

    def of_pods(self, namespace: str) -> list[KubeObject]:
        """Return the PodMetrics of running pods; a pod younger than the window is left out."""
        if not self._samples or self._clock() - self._samples[-1][0] >= _SHORTEST_WINDOW_SECONDS:
            self._sample()
        found = [
            self._metrics_of(worker)
            for worker in self._workers()
            if not namespace or worker.pod.namespace == namespace
        ]
        return [item for item in found if item is not None]

    def of_pod(self, namespace: str, name: str) -> KubeObject:
        """Return the PodMetrics of one pod."""
        for item in self.of_pods(namespace):
            if item.name == name:
                return item
        raise not_found(POD_METRICS.qualified_plural, name)

    def _sample(self) -> None:
        now = self._clock()
        self._samples.append((now, read_sessions()))
        while now - self._samples[0][0] > _LONGEST_WINDOW_SECONDS:
            self._samples.popleft()

    def _metrics_of(self, worker: PodWorker) -> KubeObject | None:
        newest_at, newest = self._samples[-1]
        containers, windows = [], []
        for name, session in worker.running_pids().items():
            held = [(at, usage[session]) for at, usage in self._samples if session in usage]
            window = newest_at - held[0][0] if held else 0.0
            if session not in newest or window < _SHORTEST_WINDOW_SECONDS:
                return None
            spent = newest[session].cpu_seconds - held[0][1].cpu_seconds
            usage = {
                "cpu": f"{max(0, round(spent / window * 1e9))}n",
                "memory": f"{newest[session].memory_bytes // 1024}Ki",
            }
            windows.append(window)
            containers.append({"name": name, "usage": usage})
        if not containers:
            return None
        now = rfc3339(time.time())
        metadata = {
            "name": worker.pod.name,
            "namespace": worker.pod.namespace,
            "creationTimestamp": now,
            "labels": dict(worker.pod.labels),
        }
        return KubeObject(
            kind=POD_METRICS.kind,
            apiVersion=POD_METRICS.api_version,
            metadata=metadata,
            timestamp=now,
            window=f"{min(windows):.3f}s",
            containers=containers,
        )
