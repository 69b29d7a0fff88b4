"""An API server under contract: how the tests reach it and what they give it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kubernetes import client as core_client
from kubernetes.dynamic import DynamicClient

SERVER_SCRIPT = (
    "import http.server, os; "
    "http.server.ThreadingHTTPServer(('', int(os.environ['PORT_HTTP'])), "
    "http.server.SimpleHTTPRequestHandler).serve_forever()"
)


@dataclass(frozen=True)
class Endpoint:
    """An API server to try: its client, a fresh namespace, and the image that its pods name."""

    client: DynamicClient
    namespace: str
    image: str

    def kind(self, api_version: str, kind: str) -> Any:
        """Return the client's handle of a kind."""
        return self.client.resources.get(api_version=api_version, kind=kind)

    def apply(self, manifest: dict[str, Any], manager: str = "bench", **options: Any) -> Any:
        """Apply a manifest in the namespace, as ``manager``."""
        return self.kind(manifest["apiVersion"], manifest["kind"]).server_side_apply(
            body=manifest, namespace=self.namespace, field_manager=manager, **options
        )

    def pods(self, label_selector: str) -> list[Any]:
        """Return the pods of a label selector that are not being deleted."""
        found = self.kind("v1", "Pod").get(namespace=self.namespace, label_selector=label_selector)
        return [pod for pod in found.items if not pod.metadata.deletionTimestamp]

    def log(self, pod: str, **options: Any) -> str:
        """Return the log of a pod (the client's own decoding gives the repr of the bytes)."""
        core = core_client.CoreV1Api(self.client.client)
        answer = core.read_namespaced_pod_log(
            pod, self.namespace, _preload_content=False, **options
        )
        return str(answer.data.decode())

    def pod(self, name: str, script: str, **spec: Any) -> dict[str, Any]:
        """Return the manifest of a pod that runs a Python script."""
        container = {
            "name": "main",
            "image": self.image,
            "command": ["python", "-c", script],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"restartPolicy": "Never", "containers": [container], **spec},
        }

    def deployment(self, name: str, replicas: int | None = None) -> dict[str, Any]:
        """Return the manifest of a Deployment of small web servers with a readiness probe."""
        spec = self.pod(name, SERVER_SCRIPT)["spec"]
        del spec["restartPolicy"]
        spec["terminationGracePeriodSeconds"] = 1
        spec["containers"][0] |= {
            "env": [{"name": "PORT_HTTP", "value": "8080"}],
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
        }
        manifest: dict[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            },
        }
        if replicas is not None:
            manifest["spec"]["replicas"] = replicas
        return manifest

    def stateful_set(self, name: str, replicas: int | None = None, **spec: Any) -> dict[str, Any]:
        """Return the manifest of a StatefulSet of the same pods."""
        manifest = self.deployment(name, replicas)
        return {**manifest, "kind": "StatefulSet", "spec": {**manifest["spec"], **spec}}


def config_map(**data: str) -> dict[str, Any]:
    """Return the manifest of a ConfigMap named ``settings``."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": data,
    }


def scaled_object(**spec: Any) -> dict[str, Any]:
    """Return the manifest of a ScaledObject named ``policy``."""
    trigger = {"type": "kafka", "metadata": {"lagThreshold": "10"}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "policy"},
        "spec": {"scaleTargetRef": {"name": "web"}, "triggers": [trigger], **spec},
    }


def message_of(error: Any) -> str:
    """Return the message of the Status object that an error carries."""
    return str(json.loads(error.body)["message"])
