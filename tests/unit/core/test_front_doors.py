"""A folder of the core has one front door: what its ``__init__`` exports."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lagbench.core
from lagbench.project import PROJECT_ROOT

CORE = Path(lagbench.core.__file__).parent
INCLUDE = CORE.parents[1]
FOLDERS = sorted(
    ".".join(door.parent.relative_to(INCLUDE).parts)
    for door in CORE.rglob("__init__.py")
    if door.parent != CORE
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_nobody_imports_past_a_front_door(folder: str) -> None:
    """From outside a folder of the core only what its ``__init__`` exports is imported."""
    exported = set(getattr(importlib.import_module(folder), "__all__", ()))
    past = [
        f"{importer}: {module}.{name}"
        for importer, package, module, name in _imports()
        if not _is_within(package, folder)
        and (
            (module == folder and name not in exported and not _is_folder(f"{module}.{name}"))
            or (module.startswith(f"{folder}.") and _owner(module) == folder)
        )
    ]

    assert past == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_front_door_exports_what_somebody_uses(folder: str) -> None:
    """Every name that a folder exports is there, and is imported from outside."""
    door = importlib.import_module(folder)
    exported = list(getattr(door, "__all__", ()))
    used = {
        name
        for _, package, module, name in _imports()
        if module == folder and not _is_within(package, folder)
    }

    assert [name for name in exported if not hasattr(door, name)] == []
    assert sorted(set(exported) - used) == []


def _is_within(package: str, folder: str) -> bool:
    return package == folder or package.startswith(f"{folder}.")


def _is_folder(module: str) -> bool:
    return INCLUDE.joinpath(*module.split("."), "__init__.py").exists()


def _owner(module: str) -> str:
    """Return the folder that holds ``module``; a folder's front door is its own."""
    return module if _is_folder(module) else module.rpartition(".")[0]


@cache
def _imports() -> tuple[tuple[str, str, str, str], ...]:
    """Return importer, its package, the module of core and the name, of all code."""
    return tuple(_read_imports())


def _read_imports() -> Iterator[tuple[str, str, str, str]]:
    for base in (
        INCLUDE / "lagbench",
        *(PROJECT_ROOT / name for name in ("dags", "plugins", "spark_jobs")),
    ):
        for path in base.rglob("*.py"):
            package = ".".join(path.parent.relative_to(base.parent).parts)
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                    "lagbench.core."
                ):
                    for alias in node.names:
                        yield path.name, package, node.module or "", alias.name
