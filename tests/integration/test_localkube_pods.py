"""Pods on localkube: environment, ports, probes, restarts, rollouts."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.eventually import eventually
from tests.integration.localkube_process import LocalkubeProcess
from tests.integration.pod_manifests import (
    FOREVER,
    NAMESPACE,
    PRINT_ENVIRONMENT,
    SERVER,
    container,
    deployment,
    pod,
    probe,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def kind(localkube: LocalkubeProcess) -> Callable[[str, str], Any]:
    """Provide the client's handles of kinds."""
    client = localkube.client()
    return lambda version, name: client.resources.get(api_version=version, kind=name)


def active_pods(kind: Callable[[str, str], Any], app: str) -> list[Any]:
    """Return the pods of an app that are not being deleted."""
    found = kind("v1", "Pod").get(namespace=NAMESPACE, label_selector=f"app={app}")
    return [item for item in found.items if not item.metadata.deletionTimestamp]


def ready_pods(kind: Callable[[str, str], Any], app: str) -> list[Any]:
    """Return the ready ones among them."""
    return [
        item
        for item in active_pods(kind, app)
        if any(c.type == "Ready" and c.status == "True" for c in item.status.conditions or ())
    ]


def test_the_environment_of_a_container(
    localkube: LocalkubeProcess, kind: Callable[[str, str], Any]
) -> None:
    """Values, references, pod fields, config maps, secrets and ports reach the process."""
    kind("v1", "ConfigMap").create(
        body={"metadata": {"name": "env-map"}, "data": {"level": "high"}}, namespace=NAMESPACE
    )
    kind("v1", "Secret").create(
        body={"metadata": {"name": "env-secret"}, "data": {"pin": "MTIzNA=="}}, namespace=NAMESPACE
    )
    fields = {
        "NAME": "metadata.name",
        "SPACE": "metadata.namespace",
        "ADDRESS": "status.podIP",
        "APP": "metadata.labels['app']",
    }
    variables: list[dict[str, Any]] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in fields.items()
    ]
    variables += [
        {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "env-map", "key": "level"}}},
        {"name": "PIN", "valueFrom": {"secretKeyRef": {"name": "env-secret", "key": "pin"}}},
        {"name": "GREETING", "value": "$(NAME) is $(LEVEL), not $$(LEVEL) or $(UNKNOWN)"},
        {"name": "PORT_METRICS", "value": "9090"},
    ]
    main = container(
        PRINT_ENVIRONMENT,
        args=["--port=$(PORT_METRICS)"],
        env=variables,
        ports=[{"name": "metrics", "containerPort": 9090}],
    )
    kind("v1", "Pod").create(body=pod("env", main), namespace=NAMESPACE)

    eventually(lambda: localkube.log("env").endswith("\n"), "a whole line")
    environment, arguments = json.loads(localkube.log("env"))
    notes = kind("v1", "Pod").get(name="env", namespace=NAMESPACE).metadata.annotations

    assert environment["NAME"] == environment["APP"] == "env"
    assert (environment["SPACE"], environment["ADDRESS"]) == ("default", "127.0.0.1")
    assert (environment["LEVEL"], environment["PIN"]) == ("high", "1234")
    assert environment["GREETING"] == "env is high, not $(LEVEL) or $(UNKNOWN)"
    assert environment["PORT_METRICS"] == notes["lagbench.io/port-metrics"] != "9090"
    assert arguments == [f"--port={environment['PORT_METRICS']}"]
    assert environment["KUBECONFIG"] == str(localkube.kubeconfig)


def test_instants_are_kept_to_the_nanosecond(kind: Callable[[str, str], Any]) -> None:
    """Created, started, ready and deleted are annotations, in this order."""
    pods = kind("v1", "Pod")
    pods.create(body=pod("instants", container(SERVER, **probe())), namespace=NAMESPACE)
    eventually(lambda: ready_pods(kind, "instants"), "the ready pod")

    notes = pods.delete(name="instants", namespace=NAMESPACE).metadata.annotations

    steps = ("created", "started", "ready", "deleted")
    instants = [int(notes[f"lagbench.io/{step}-at-ns"]) for step in steps]
    assert instants == sorted(instants)
    assert len(set(instants)) == len(instants)


def test_a_pod_that_stops_answering_is_not_ready(
    kind: Callable[[str, str], Any], tmp_path: Path
) -> None:
    """Readiness is lost after failureThreshold failures, and the Deployment counts it."""
    stop_file = tmp_path / "stop"
    script = (
        "import http.server, os, signal, threading, time\n"
        "server = http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT_HTTP'])), "
        "http.server.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=server.serve_forever).start()\n"
        f"while not os.path.exists({str(stop_file)!r}): time.sleep(0.05)\n"
        "server.shutdown(); server.server_close(); signal.pause()"
    )
    fields = probe()
    fields["readinessProbe"]["failureThreshold"] = 1
    deployments = kind("apps/v1", "Deployment")
    deployments.create(body=deployment("fades", 1, script, **fields), namespace=NAMESPACE)
    eventually(lambda: ready_pods(kind, "fades"), "the ready pod")

    stop_file.touch()
    eventually(lambda: not ready_pods(kind, "fades"), "the pod that is not ready any more")

    eventually(
        lambda: deployments.get(name="fades", namespace=NAMESPACE).status.readyReplicas == 0,
        "the count",
    )
    deployments.delete(name="fades", namespace=NAMESPACE)


def test_a_failed_liveness_probe_restarts_the_container(kind: Callable[[str, str], Any]) -> None:
    """A container whose liveness probe fails is ended and started again."""
    liveness = {"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 1}
    body = pod("dead", container(FOREVER, livenessProbe=liveness), restartPolicy="Always")
    kind("v1", "Pod").create(body=body, namespace=NAMESPACE)

    eventually(
        lambda: active_pods(kind, "dead")[0].status.containerStatuses[0].restartCount >= 1,
        "a restart",
    )
    kind("v1", "Pod").delete(name="dead", namespace=NAMESPACE)


def test_a_rollout_keeps_enough_pods_ready(kind: Callable[[str, str], Any]) -> None:
    """A changed template replaces all pods, never with fewer ready than maxUnavailable allows."""
    deployments = kind("apps/v1", "Deployment")
    body = deployment("rolls", 4, SERVER, **probe())
    rolling = {"maxSurge": 1, "maxUnavailable": 1}
    body["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    deployments.create(body=body, namespace=NAMESPACE)
    eventually(lambda: len(ready_pods(kind, "rolls")) == 4, "four ready pods")
    first = active_pods(kind, "rolls")
    old = {item.metadata.name for item in first}
    assert len({item.metadata.annotations["lagbench.io/port-http"] for item in first}) == 4
    variables = [{"name": "CHANGED", "value": "yes"}]
    main = {"name": "main", "env": variables}
    deployments.patch(
        body={"spec": {"template": {"spec": {"containers": [main]}}}},
        name="rolls",
        namespace=NAMESPACE,
    )
    fewest = most = 4

    def is_replaced() -> bool:
        nonlocal fewest, most
        now = active_pods(kind, "rolls")
        most = max(most, len(now))
        fewest = min(fewest, len(ready_pods(kind, "rolls")))
        names = {item.metadata.name for item in now}
        return not names & old and len(ready_pods(kind, "rolls")) == 4

    eventually(is_replaced, "four new pods")

    assert fewest >= 3
    assert most <= 5
    deployments.delete(name="rolls", namespace=NAMESPACE)


def test_a_followed_log_ends_with_its_pod_and_its_file_stays(
    localkube: LocalkubeProcess, kind: Callable[[str, str], Any]
) -> None:
    """Following a log gives all lines, those written later too; the file outlives the pod."""
    from kubernetes import client as core_client

    script = "import time\nfor n in range(3): print(n, flush=True); time.sleep(0.3)"
    kind("v1", "Pod").create(body=pod("talks", container(script)), namespace=NAMESPACE)
    core = core_client.CoreV1Api(localkube.client().client)

    answer = core.read_namespaced_pod_log(
        "talks", NAMESPACE, follow=True, _preload_content=False, _request_timeout=120
    )

    assert answer.data.decode().split() == ["0", "1", "2"]
    kind("v1", "Pod").delete(name="talks", namespace=NAMESPACE)
    eventually(lambda: not active_pods(kind, "talks"), "its end")
    assert localkube.log("talks") == "0\n1\n2\n"


def test_a_service_reaches_the_ready_pods_in_turn(kind: Callable[[str, str], Any]) -> None:
    """A service's port leads to its pods one after the other; its address is an annotation."""
    script = (
        "import http.server, os\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers()\n"
        "        self.wfile.write(os.environ['HOSTNAME'].encode())\n"
        "http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT_HTTP'])), Handler)"
        ".serve_forever()"
    )
    body = deployment("served", 2, script, **probe())
    kind("apps/v1", "Deployment").create(body=body, namespace=NAMESPACE)
    services = kind("v1", "Service")
    spec = {"selector": {"app": "served"}, "ports": [{"port": 80, "targetPort": "http"}]}
    services.create(body={"metadata": {"name": "served"}, "spec": spec}, namespace=NAMESPACE)
    pods = eventually(
        lambda: len(ready_pods(kind, "served")) == 2 and ready_pods(kind, "served"), "two pods"
    )

    notes = services.get(name="served", namespace=NAMESPACE).metadata.annotations
    address = f"http://127.0.0.1:{notes['lagbench.io/port-80']}/"
    answers = {urllib.request.urlopen(address, timeout=60).read().decode() for _ in range(4)}

    assert answers == {item.metadata.name for item in pods}
    services.delete(name="served", namespace=NAMESPACE)
    kind("apps/v1", "Deployment").delete(name="served", namespace=NAMESPACE)
