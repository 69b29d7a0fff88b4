"""Write the kubeconfig for clients of localkube."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import yaml

CONTEXT = "lagbench-embedded"


def write_kubeconfig(path: Path, *, server: str, token: str, authority: bytes) -> None:
    """Write the file atomically, readable only by its owner."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(authority).decode(),
                },
            }
        ],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [
            {
                "name": CONTEXT,
                "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"},
            }
        ],
    }
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())


def write_private(path: Path, content: bytes) -> None:
    """Write ``content`` to a file of mode 0600 and rename it into place."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    scratch.replace(path)
