"""The committed manifests in ``k8s/``."""

from __future__ import annotations

from typing import Any

import yaml

from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

BASE = PROJECT_ROOT / "k8s" / "base"


def base_manifest(workload: str, kind: str) -> dict[str, Any]:
    """Return the object of ``kind`` in ``k8s/base/<workload>/``.

    :raises WrongInput: there is none.
    """
    folder = BASE / workload
    for path in sorted(folder.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if isinstance(document, dict) and document.get("kind") == kind:
                return document
    raise WrongInput(
        where=str(folder.relative_to(PROJECT_ROOT)), field="kind", value=kind, allowed="one object"
    )


def base_objects(workload: str) -> list[dict[str, Any]]:
    """Return the workload's other objects (accounts, services, claims): all that no run patches."""
    patched = ("Deployment", "Job", "Kustomization")
    return [
        document
        for path in sorted((BASE / workload).rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and document.get("kind") not in patched
    ]
