"""Follow the imports of programs through our packages, without running them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import yaml

INCLUDE = Path(__file__).parents[3] / "include"


def reachable(roots: list[Path]) -> tuple[set[Path], set[str]]:
    """Return our own files that ``roots`` import, and the other modules' top names."""
    files: set[Path] = set()
    foreign: set[str] = set()
    waiting = list(roots)
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        for name in _imported(path):
            top = name.split(".")[0]
            if (INCLUDE / top).is_dir():
                waiting += _files_of(name)
            elif top not in sys.stdlib_module_names:
                foreign.add(name)
    return files, foreign


def distributions(modules: set[str], *, but: set[str]) -> set[str]:
    """Return the installed packages that hold ``modules``; namespaces by their longest name."""
    known = packages_distributions()
    found = {known[name.split(".")[0]][0] for name in modules if name.split(".")[0] not in but}
    return {name.lower().replace("_", "-") for name in found}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files_of(module: str) -> list[Path]:
    """Return the module's file and those of its packages; a name in a module gives the module."""
    found = []
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        folder = INCLUDE.joinpath(*parts[:length])
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        if file.is_file():
            found.append(file)
    return found


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
