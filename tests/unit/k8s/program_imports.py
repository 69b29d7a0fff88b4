"""Follow the imports of programs through lagbench, local ones included, without running them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

INCLUDE = Path(__file__).parents[3] / "include"


def reachable(roots: list[Path]) -> tuple[set[Path], set[str]]:
    """Return the files of lagbench that ``roots`` import, and the other modules' top names."""
    files: set[Path] = set()
    foreign: set[str] = set()
    waiting = list(roots)
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        for name in _imported(path):
            if name.split(".")[0] == "lagbench":
                waiting += _files_of(name)
            elif name.split(".")[0] not in sys.stdlib_module_names:
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
