"""The objects of k8s/base and their pod templates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

K8S = Path(__file__).parents[3] / "k8s"


def base_objects() -> Iterator[dict[str, Any]]:
    """Yield every object of k8s/base."""
    for path in sorted((K8S / "base").rglob("*.yaml")):
        if path.name == "kustomization.yaml":
            continue
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if isinstance(document, dict) and "kind" in document:
                yield document


def workloads() -> dict[str, dict[str, Any]]:
    """Return the objects with a pod template by ``Kind/name``."""
    found = (o for o in base_objects() if "template" in (o.get("spec") or {}))
    return {f"{o['kind']}/{o['metadata']['name']}": o for o in found}


def pod_spec(workload: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a workload's pods."""
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec
