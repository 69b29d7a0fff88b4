"""A kubeconfig and a target that leads to it."""

from __future__ import annotations

import json
from pathlib import Path

from lagbench.orchestrator.target import ClusterTarget

CONTEXT = "prod"


def write_kubeconfig(
    path: Path, server: str = "https://prod.example", *, bearer: str = "secret"
) -> Path:
    """Write a kubeconfig whose one context has its API server at ``server``."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": server, "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {"token": bearer}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": server, "user": "me"}}],
    }
    path.write_text(json.dumps(content))
    return path


def cluster_target(folder: Path, server: str) -> ClusterTarget:
    """Write a kubeconfig with the API server, and return the target that leads there."""
    path = write_kubeconfig(folder / "kubeconfig", server)
    return ClusterTarget(
        name=f"context:{CONTEXT}",
        kubeconfig=str(path),
        context=CONTEXT,
        fields={"namespace": "spikes"},
        bootstrap_servers="kafka:9092",
    )
