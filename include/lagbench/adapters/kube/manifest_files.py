"""The committed manifests in ``k8s/``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

BASE = PROJECT_ROOT / "k8s" / "base"


def base_manifest(workload: str, kind: str) -> dict[str, Any]:
    """Return the object of ``kind`` in ``k8s/base/<workload>/``.

    :raises WrongInput: there is none.
    """
    for document in _documents(workload):
        if document.get("kind") == kind:
            return document
    where = str((BASE / workload).relative_to(PROJECT_ROOT))
    raise WrongInput(where=where, field="kind", value=kind, allowed="one object")


def base_objects(
    workload: str, *, without: tuple[str, ...] = ("Deployment", "Job")
) -> list[dict[str, Any]]:
    """Return the workload's objects; by default (accounts, services, claims) what no run patches.

    A kustomization lists files for kubectl and is not an object of the API.
    """
    omitted = ("Kustomization", *without)
    return [found for found in _documents(workload) if found.get("kind") not in omitted]


def _documents(workload: str) -> Iterator[dict[str, Any]]:
    for path in sorted((BASE / workload).rglob("*.yaml")):
        loaded = yaml.safe_load_all(path.read_text(encoding="utf-8"))
        yield from (document for document in loaded if isinstance(document, dict))
