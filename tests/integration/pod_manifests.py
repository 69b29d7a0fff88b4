"""Small manifests for the tests of localkube's pods."""

from __future__ import annotations

from typing import Any

NAMESPACE = "default"
FOREVER = "import signal; signal.pause()"
SERVER = (
    "import http.server, os; "
    "http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT_HTTP'])), "
    "http.server.SimpleHTTPRequestHandler).serve_forever()"
)
PRINT_ENVIRONMENT = "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv[1:]]))"


def container(script: str, **fields: Any) -> dict[str, Any]:
    """Return a container that runs a Python script."""
    return {"name": "main", "image": "none", "command": ["python", "-c", script], **fields}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the manifest of a pod."""
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": list(containers),
            **spec,
        },
    }


def deployment(name: str, replicas: int, script: str, **fields: Any) -> dict[str, Any]:
    """Return the manifest of a Deployment."""
    template = pod(name, container(script, **fields), restartPolicy="Always")
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }


def job(name: str, script: str, **spec: Any) -> dict[str, Any]:
    """Return the manifest of a Job."""
    template = {"spec": pod(name, container(script))["spec"]}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def probe(period_seconds: int = 1) -> dict[str, Any]:
    """Return the fields of a container with an HTTP readiness probe.

    A pod that the machine holds up for some seconds stays Ready.
    """
    return {
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {
            "httpGet": {"path": "/", "port": "http"},
            "periodSeconds": period_seconds,
            "failureThreshold": 60,
        },
    }
