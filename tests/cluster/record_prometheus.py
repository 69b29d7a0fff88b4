"""Record how KEDA and the HPA behave with prometheus triggers whose server answers and fails.

``python -m tests.cluster.rig python -m tests.cluster.record_prometheus FILE.jsonl.gz`` records the
real ones. Outside the rig the same command records the embedded bench, with ``KUBECONFIG`` as
``lagbench up`` prints it. Both take about four minutes, and tests/conformance/prometheus_traces
compares them. Each line is a change that was seen: of an object's conditions and failure counters,
of its HPA and of the replicas, with the answer that the server gave at that time. The last case
makes KEDA's scaler panic, so that it comes when all others have been seen.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kubernetes import client, config

from lagbench.adapters.kube.kube import Kube
from tests.cluster.rig.images import PAUSE
from tests.cluster.rig.network import NODE_ADDRESS, is_inside
from tests.conformance.keda_prometheus.cases import vector

NAMESPACE = "prometheus-record"
ADDRESS = NODE_ADDRESS if is_inside() else "127.0.0.1"
_LOOK_SECONDS = 0.5
_NO_PORT = 1  # nothing listens there
_GOOD, _BAD, _AFTER_PANIC = 60.0, 90.0, 60.0
Answer = tuple[int, str]
SEVEN: Answer = (200, vector("7"))
CRON = {"timezone": "Etc/UTC", "start": "0 0 * * *", "end": "59 23 * * *", "desiredReplicas": "3"}
FALLBACK = {"failureThreshold": 3, "replicas": 6}


@dataclass(frozen=True)
class Case:
    """One ScaledObject: its answers in both stages, and what it has beside a plain trigger."""

    name: str
    first: Answer = SEVEN
    then: Answer = SEVEN
    metadata: Mapping[str, str] = field(default_factory=dict)
    trigger: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    has_cron: bool = False
    is_down: bool = False


ERROR: Answer = (500, "")
STRICT = {"ignoreNullValues": "false"}
EMPTY: Answer = (200, '{"data":{"result":[]}}')
CASES = (
    Case("value"),
    Case("value-target", trigger={"metricType": "Value"}, metadata={"threshold": "3.5"}),
    Case("fraction", metadata={"threshold": "0.5"}),
    Case("target-zero", metadata={"threshold": "0"}),
    Case("target-rounded-to-zero", metadata={"threshold": "0.0004"}),
    Case("threshold-wrong", metadata={"threshold": "one"}),
    Case("query-missing", metadata={"query": ""}),
    Case("activation", metadata={"activationThreshold": "7"}, spec={"minReplicaCount": 0}),
    Case("empty", then=EMPTY),
    Case("empty-strict", then=EMPTY, metadata=STRICT),
    Case("null-strict", then=(200, vector(None)), metadata=STRICT),
    Case("nan-strict", then=(200, vector("NaN")), metadata=STRICT),
    Case("two-series", then=(200, vector("1", "2"))),
    Case("error", then=ERROR),
    Case("error-fallback", then=ERROR, spec={"fallback": FALLBACK}),
    Case("error-fallback-0", then=ERROR, spec={"fallback": {**FALLBACK, "failureThreshold": 0}}),
    Case("error-beside-cron", then=ERROR, has_cron=True),
    Case("down-at-creation", is_down=True),
    Case("down-beside-cron", is_down=True, has_cron=True),
    Case("down-fallback", is_down=True, spec={"fallback": FALLBACK}),
    Case("cached", then=ERROR, trigger={"useCachedMetrics": True}, spec={"fallback": FALLBACK}),
)
PANIC = Case("number", then=(200, vector(7)))


class Server:
    """Answers each case by the last part of its path."""

    def __init__(self) -> None:
        """Answer what the first stage says."""
        self.answers = {case.name: case.first for case in (*CASES, PANIC)}


@contextmanager
def running(server: Server) -> Iterator[int]:
    """Serve on the node's address for the time of the block; gives the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = server.answers[self.path.split("/")[1]]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Stay silent."""

    listening = ThreadingHTTPServer((ADDRESS, 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield int(listening.server_address[1])
    finally:
        listening.shutdown()
        listening.server_close()


def scaled_object(case: Case, port: int) -> dict[str, Any]:
    """Return the object of a case."""
    address = f"http://{ADDRESS}:{_NO_PORT if case.is_down else port}/{case.name}"
    metadata = {"serverAddress": address, "query": "sum(lag)", "threshold": "2", **case.metadata}
    triggers = [{"type": "prometheus", **case.trigger, "metadata": metadata}]
    if case.has_cron:
        triggers.append({"type": "cron", "metadata": CRON})
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": case.name, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"name": case.name},
            "pollingInterval": 5,
            "minReplicaCount": 1,
            "maxReplicaCount": 10,
            **case.spec,
            "triggers": triggers,
        },
    }


def deployment(name: str) -> dict[str, Any]:
    """Return a Deployment of one pod that does nothing."""
    labels = {"app": name}
    container: dict[str, Any] = {"name": "pause", "image": PAUSE, "imagePullPolicy": "Never"}
    if not is_inside():  # a pod of the bench is a process
        container["command"] = ["sleep", "600"]
    pod = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


class Watcher:
    """Keeps a line for whatever has changed since the last look."""

    def __init__(self, kube: Kube, server: Server) -> None:
        """Begin with nothing seen."""
        self._kube, self._server = kube, server
        self._seen: dict[str, Any] = {}
        self._began_at = time.monotonic()
        self.lines: list[dict[str, Any]] = []

    def watch(self, seconds: float) -> None:
        """Look twice a second."""
        until = time.monotonic() + seconds
        pause = threading.Event()
        while time.monotonic() < until:
            self._look()
            pause.wait(_LOOK_SECONDS)

    def events(self) -> None:
        """Add the warnings of all objects."""
        for event in self._kube.list("Event"):
            if event.get("type") == "Warning":
                kept = {key: event.get(key) for key in ("reason", "message", "count")}
                involved = event["involvedObject"]["name"]
                self.lines.append({"kind": "event", "case": involved, **kept})

    def _look(self) -> None:
        hpas = {
            item["metadata"]["name"]: item for item in self._kube.list("HorizontalPodAutoscaler")
        }
        replicas = {
            item["metadata"]["name"]: item["spec"]["replicas"]
            for item in self._kube.list("Deployment")
        }
        for found in self._kube.list("ScaledObject"):
            name, status = found["metadata"]["name"], found.get("status") or {}
            hpa = hpas.get(f"keda-hpa-{name}", {})
            of_hpa = hpa.get("status") or {}
            seen = {
                "answer": self._server.answers[name],
                "conditions": status.get("conditions"),
                "health": status.get("health"),
                "metrics": (hpa.get("spec") or {}).get("metrics"),
                "current": of_hpa.get("currentMetrics"),
                "desired": of_hpa.get("desiredReplicas"),
                "replicas": replicas.get(name),
            }
            if self._seen.get(name) != seen:
                self._seen[name] = seen
                at = round(time.monotonic() - self._began_at, 2)
                self.lines.append({"kind": "seen", "t": at, "case": name, **seen})


def main(arguments: list[str]) -> int:
    """Write the lines; returns the exit code."""
    target = Path(arguments[0])
    kubeconfig = os.environ["KUBECONFIG"]
    kube = Kube.from_kubeconfig(kubeconfig, namespace=NAMESPACE)
    core = client.CoreV1Api(config.new_client_from_config(kubeconfig))
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    server = Server()
    with running(server) as port:
        watcher = Watcher(kube, server)
        for case in (*CASES, PANIC):
            kube.apply(deployment(case.name))
            kube.apply(scaled_object(case, port))
        watcher.watch(_GOOD)
        for case in CASES:
            server.answers[case.name] = case.then
        watcher.watch(_BAD)
        server.answers[PANIC.name] = PANIC.then
        watcher.watch(_AFTER_PANIC)
        watcher.events()
    kube.close()
    text = "\n".join(map(json.dumps, watcher.lines)) + "\n"
    target.write_bytes(gzip.compress(text.encode(), mtime=0))
    sys.stdout.write(f"{len(watcher.lines)} lines in {target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
