"""Kubeconfig files with client certificates."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.cluster.rig.certificates import Pair


def write_kubeconfig(path: Path, *, server: str, authority: Path, client: Pair) -> Path:
    """Write a kubeconfig with one context, ``rig``."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "rig",
                "cluster": {"server": server, "certificate-authority": str(authority)},
            }
        ],
        "users": [
            {
                "name": "client",
                "user": {
                    "client-certificate": str(client.certificate),
                    "client-key": str(client.key),
                },
            }
        ],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "client"}}],
        "current-context": "rig",
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path
